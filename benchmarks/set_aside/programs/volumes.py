"""Liver volumes: 3D patches are large, so two fit on a card. Classifies lesions; 2 cards with torchrun."""
import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--per-card", type=int, default=2)
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("--max-time", type=float, default=210)
args = p.parse_args()


def cbr(i, o, stride):
    return nn.Sequential(nn.Conv3d(i, o, 3, stride, 1, bias=False), nn.BatchNorm3d(o), nn.ReLU())


class Lesions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(cbr(1, 12, 2), cbr(12, 24, 2), cbr(24, 32, 2), nn.AdaptiveAvgPool3d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(32, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.head(self.conv(x))


def volumes(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    x = torch.randn(n, 1, 24, 24, 24, generator=g)
    for v, c in zip(x, y.tolist()):
        s = 4 + 4 * c
        v[:, 2 : 2 + s, 2 : 2 + s, 2 : 2 + s] += 1.2
    return TensorDataset(x, y)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
train, val = volumes(640, 1), volumes(128, 2)
sampler = DistributedSampler(train)
loader = DataLoader(train, args.per_card, sampler=sampler, drop_last=True)
net = DDP(Lesions())
opt = torch.optim.Adam(net.parameters(), args.lr)
t0 = time.time()
for epoch in range(1000):
    sampler.set_epoch(epoch)
    net.train()
    run = 0.0
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run = 0.95 * run + 0.05 * loss.item() if i else loss.item()
        if rank == 0 and i % 20 == 0:
            print(f"E{epoch} {i}/{len(loader)} loss {run:.4f}", flush=True)
    net.eval()
    with torch.no_grad():
        acc = sum((net.module(x).argmax(1) == y).sum().item() for x, y in DataLoader(val, 32)) / len(val)
    if rank == 0:
        print(f"E{epoch} done, val acc {acc:.3f}, {time.time() - t0:.0f} s", flush=True)
    over = torch.tensor([time.time() - t0])
    dist.broadcast(over, 0)
    if over.item() > args.max_time:
        break
dist.destroy_process_group()
