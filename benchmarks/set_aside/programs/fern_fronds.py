import argparse
import math
import random
import time

import torch
import torch.nn as nn
import torch.utils.data

parser = argparse.ArgumentParser(description="Fern fronds: 20 genera")
parser.add_argument("-j", "--workers", default=0, type=int, metavar="N", help="number of data loading workers")
parser.add_argument("--epochs", default=90, type=int, metavar="N")
parser.add_argument("-b", "--batch-size", default=32, type=int)
parser.add_argument("--lr", "--learning-rate", default=0.02, type=float)
parser.add_argument("-p", "--print-freq", default=10, type=int)


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.val = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(name=self.name, val=self.val, avg=self.sum / max(1, self.count))


class Fronds(torch.utils.data.Dataset):
    SIDE = 40

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def draw(self, genus, rng):
        side = self.SIDE
        pixels = [[0.0] * side for _ in range(side)]
        bend, ratio = (genus % 5 - 2) * 0.06, 0.55 + (genus // 5) * 0.09
        x, y, angle, length = side / 2, side - 2, -math.pi / 2 + rng.uniform(-0.2, 0.2), 5.0
        stack = [(x, y, angle, length)]
        while stack:
            x, y, angle, length = stack.pop()
            if length < 0.9:
                continue
            for t in range(int(length * 2)):
                i, j = int(y + math.sin(angle) * t / 2), int(x + math.cos(angle) * t / 2)
                if 0 <= i < side and 0 <= j < side:
                    pixels[i][j] = 1.0
            nx, ny = x + math.cos(angle) * length, y + math.sin(angle) * length
            stack += [(nx, ny, angle + bend, length * 0.85), (nx, ny, angle - 0.9, length * ratio * 0.6), (nx, ny, angle + 0.9, length * ratio * 0.6)]
        return pixels

    def blur(self, pixels):
        side = self.SIDE
        out = [[0.0] * side for _ in range(side)]
        for i in range(1, side - 1):
            for j in range(1, side - 1):
                out[i][j] = sum(pixels[i + a][j + b] for a in (-1, 0, 1) for b in (-1, 0, 1)) / 9
        return out

    def __getitem__(self, index):
        rng = random.Random(index)
        genus = index % 20
        return torch.tensor(self.blur(self.draw(genus, rng)))[None], genus


def main():
    args = parser.parse_args()
    model = nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3200, 20))
    print("=> creating model 'frondnet'", flush=True)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    loader = torch.utils.data.DataLoader(Fronds(3200), batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    for epoch in range(args.epochs):
        meters = [AverageMeter("Time", ":6.3f"), AverageMeter("Data", ":6.3f"), AverageMeter("Loss", ":.4e")]
        end = time.time()
        for i, (images, target) in enumerate(loader):
            meters[1].update(time.time() - end)
            loss = nn.functional.cross_entropy(model(images), target)
            meters[2].update(loss.item(), images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meters[0].update(time.time() - end)
            end = time.time()
            if i % args.print_freq == 0:
                print("\t".join([f"Epoch: [{epoch}][{i:3d}/{len(loader)}]"] + [str(m) for m in meters]), flush=True)


if __name__ == "__main__":
    main()
