"""Leaf diseases, 12 classes, 28x28 crops. Baseline from last year's student, cleaned up a bit."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--bs", type=int, default=48)
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--max-seconds", type=float, default=210)
args = parser.parse_args()
torch.manual_seed(12)


def make(n, classes=12):
    y = torch.randint(0, classes, (n,))
    g = torch.linspace(-1, 1, 28)
    yy, xx = torch.meshgrid(g, g, indexing="ij")
    freq = 2.0 + y.float().view(-1, 1, 1)
    phase = torch.rand(n, 1, 1) * 6.28
    img = torch.sin(freq * (xx * 2 + yy) + phase)
    return torch.stack([img, img.flip(2), img.roll(3, 1)], 1) + 0.8 * torch.randn(n, 3, 28, 28), y


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Dropout2d(0.15), nn.MaxPool2d(2))


net = nn.Sequential(block(3, 16), block(16, 32), block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(64, 12))
train_loader = DataLoader(TensorDataset(*make(1600)), batch_size=args.bs, shuffle=True, drop_last=True)
val_loader = DataLoader(TensorDataset(*make(384)), batch_size=128)
opt = torch.optim.Adam(net.parameters(), lr=args.lr)


def evaluate():
    net.eval()
    correct = n = 0
    with torch.no_grad():
        for x, y in val_loader:
            correct += (net(x).argmax(1) == y).sum().item()
            n += len(y)
    return correct / n


net.train()
t0 = time.time()
epoch = 0
while time.time() - t0 < args.max_seconds:
    for it, (x, y) in enumerate(train_loader):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 0:
            print(f"ep {epoch} it {it}/{len(train_loader)} loss {loss.item():.4f}", flush=True)
    print(f"ep {epoch} val acc {evaluate():.3f}  {time.time() - t0:.0f}s", flush=True)
    epoch += 1
