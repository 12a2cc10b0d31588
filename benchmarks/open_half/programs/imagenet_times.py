"""usage: imagenet_times.py --print-freq 5   (adapted from the ImageNet example)"""
import argparse, time
import torch, torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt, self.sum, self.count, self.val = name, fmt, 0.0, 0, 0.0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(name=self.name, val=self.val, avg=self.sum / max(1, self.count))


class Photos(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        x = torch.rand(3, 96, 96)
        for _ in range(6):  # "augmentation"
            x = torch.nn.functional.avg_pool2d(x[None], 3, 1, 1)[0]
        return x[:, ::3, ::3], i % 10


def train(loader, model, criterion, optimizer, epoch, args):
    batch_time, data_time, losses = AverageMeter("Time", ":6.3f"), AverageMeter("Data", ":6.3f"), AverageMeter("Loss", ":.4e")
    end = time.time()
    for i, (images, target) in enumerate(loader):
        data_time.update(time.time() - end)
        loss = criterion(model(images), target)
        losses.update(loss.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            print("\t".join([f"Epoch: [{epoch}][{i:4d}/{len(loader)}]", str(batch_time), str(data_time), str(losses)]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--print-freq", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 5, 4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    loader = DataLoader(Photos(), batch_size=16, shuffle=True)
    model(torch.rand(1, 3, 32, 32))
    for epoch in range(10**6):
        train(loader, model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.01), epoch, args)
