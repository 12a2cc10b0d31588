import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class PointNet(nn.Module):
    """Shared MLP, max pool, classifier."""

    def __init__(self, k=10):
        super().__init__()
        self.feat = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 256, 1), nn.BatchNorm1d(256), nn.ReLU())
        self.fc = nn.Sequential(nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, k))

    def forward(self, pts):
        return self.fc(self.feat(pts).max(dim=2).values)


def clouds(n, points=256):
    g = torch.Generator().manual_seed(0)
    y = torch.randint(0, 10, (n,), generator=g)
    x = torch.randn(n, 3, points, generator=g)
    x[:, 0] *= (1 + 0.3 * y)[:, None]
    return TensorDataset(x, y)


def main():
    ap = argparse.ArgumentParser(description="Point cloud classification")
    ap.add_argument("--batch_size", type=int, default=24)
    ap.add_argument("--epoch", type=int, default=200)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--val", type=float, default=0.1)
    opt = ap.parse_args()
    data = clouds(4001)
    train, val = random_split(data, [1 - opt.val, opt.val], generator=torch.Generator().manual_seed(1))
    print(f"train {len(train)} val {len(val)}", flush=True)
    loader = DataLoader(train, batch_size=opt.batch_size, shuffle=True)
    net = PointNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=opt.lr)
    t = time.time()
    for epoch in range(opt.epoch):
        net.train()
        for i, (pts, target) in enumerate(loader):
            optimizer.zero_grad()
            pred = net(pts)
            loss = nn.functional.cross_entropy(pred, target)
            loss.backward()
            optimizer.step()
            if i % 10 == 0:
                print(f"[{epoch}: {i}/{len(loader)}] train loss: {loss.item():f} accuracy: {(pred.argmax(1) == target).float().mean().item():f} {time.time() - t:.0f}s", flush=True)


if __name__ == "__main__":
    main()
