"""Damaged bearings, recognized by their vibration."""
import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def vibration(n, classes=5):
    y = torch.randint(0, classes, (n,))
    t = torch.linspace(0, 1, 1024)
    ring = torch.sin(6.283 * 60 * t) * torch.exp(-((t * (7 + 4 * y.view(-1, 1)) + torch.rand(n, 1)) % 1) * 6)
    return TensorDataset((ring + 0.7 * torch.randn(n, 1024)).unsqueeze(1), y)


class Net(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 32, 64, 8), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 9, 2), nn.BatchNorm1d(64), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, x):
        return self.head(self.conv(x))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--val", type=int, default=271)
    ap.add_argument("--epochs", type=int, default=60)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = vibration(2000)
    train, val = random_split(data, [len(data) - args.val, args.val])
    loader, val_loader = DataLoader(train, args.bs, shuffle=True), DataLoader(val, 64)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    print(f"{len(train)} windows for training, {len(val)} for validation", flush=True)
    for epoch in range(args.epochs):
        net.train()
        start = time.time()
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                print(f"epoch {epoch} {i:2d}/{len(loader)} loss {loss.item():.4f}", flush=True)
        net.eval()
        with torch.no_grad():
            hits = sum((net(x).argmax(1) == y).sum().item() for x, y in val_loader)
        print(f"epoch {epoch} val acc {hits / len(val):.3f} ({time.time() - start:.1f} s)", flush=True)
