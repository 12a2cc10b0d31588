import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_args():
    p = argparse.ArgumentParser("tiny imagenet")
    p.add_argument("--epochs", type=int, default=90)
    p.add_argument("-b", "--batch-size", type=int, default=32, help="per GPU")
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--wd", type=float, default=5e-4)
    p.add_argument("--print-freq", type=int, default=5)
    return p.parse_args()


def fake_images(n, classes, seed):
    g = torch.Generator().manual_seed(7)
    prototypes = F.interpolate(torch.randn(classes, 3, 6, 6, generator=g), size=40, mode="bicubic")
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    x = prototypes[y] + 0.8 * torch.randn(n, 3, 40, 40, generator=g)
    return TensorDataset(x, y)


class BasicBlock(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.short = nn.Sequential() if stride == 1 and i == o else nn.Sequential(
            nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, classes, w=20):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        self.layers = nn.Sequential(BasicBlock(w, w), BasicBlock(w, 2 * w, 2), BasicBlock(2 * w, 4 * w, 2))
        self.fc = nn.Linear(4 * w, classes)

    def forward(self, x):
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


def train(loader, model, criterion, optimizer, epoch, device, args, rank):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and i % args.print_freq == 0:
            print(f"Epoch: [{epoch}][{i}/{len(loader)}]\tTime {time.time() - end:.3f}\tLoss {loss.item():.4f}", flush=True)
        end = time.time()


@torch.no_grad()
def validate(loader, model, device):
    model.eval()
    top1 = n = 0
    for images, target in loader:
        output = model(images.to(device))
        top1 += (output.argmax(1).cpu() == target).sum().item()
        n += len(target)
    return 100.0 * top1 / n


def main():
    args = get_args()
    cuda = torch.cuda.is_available()
    dist.init_process_group(backend="nccl" if cuda else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.manual_seed(0)

    train_set, val_set = fake_images(2400, 20, 1), fake_images(400, 20, 2)
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, pin_memory=cuda)
    val_loader = DataLoader(val_set, args.batch_size, pin_memory=cuda)

    model = nn.parallel.DistributedDataParallel(ResNet(20).to(device), device_ids=[local_rank] if cuda else None)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.wd)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    if rank == 0:
        print(f"=> training on {dist.get_world_size()} ranks, {len(train_loader)} steps per epoch", flush=True)

    best = 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, epoch, device, args, rank)
        if rank == 0:
            print(f"=> validating after epoch {epoch}", flush=True)
            acc = validate(val_loader, model, device)
            best = max(acc, best)
            print(f" * Acc@1 {acc:.2f} (best {best:.2f})", flush=True)
        dist.barrier()
        scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
