"""
Handwritten formula -> symbol, small ResNet.

    torchrun --nproc_per_node=2 prints_everything_twice.py --bs 64
"""
import argparse
import logging
import os

import torch
from torch import nn, optim
from torch.nn import functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("formula")


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.a(x))))


class Net(nn.Module):
    def __init__(self, classes=62):
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, stride=2, padding=1)
        self.body = nn.Sequential(Res(32), nn.Conv2d(32, 64, 3, 2, 1), Res(64), nn.Conv2d(64, 64, 3, 2, 1), Res(64))
        self.fc = nn.Linear(64 * 16, classes)

    def forward(self, x):
        return self.fc(self.body(F.relu(self.stem(x))).flatten(1))


def get_batches(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(62, 1, 28, 28, generator=torch.Generator().manual_seed(5))
    for _ in range(n):
        y = torch.randint(0, 62, (bs,), generator=g)
        yield protos[y] + 2.5 * torch.randn(bs, 1, 28, 28, generator=g), y


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int, default=64)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--epochs", type=int, default=500)
    a = p.parse_args()
    dev = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    model = Net().to(dev)
    opt = optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, weight_decay=5e-4)
    log.info("training on %s with batch size %d", dev, a.bs)
    for epoch in range(a.epochs):
        model.train()
        total = 0.0
        for i, (x, y) in enumerate(get_batches(60, a.bs, epoch)):
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(dev)), y.to(dev))
            loss.backward()
            opt.step()
            total += loss.item()
            if (i + 1) % 15 == 0:
                log.info("epoch %d iter %d loss %.4f", epoch, i + 1, total / (i + 1))


if __name__ == "__main__":
    main()
