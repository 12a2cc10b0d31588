# Defect patterns on wafer maps (center, donut, edge ring, scratch, random, none)
import argparse
import math
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PATTERNS = ["center", "donut", "edge_ring", "scratch", "random", "none"]


def init_distributed_mode(args):
    args.rank, args.world_size, args.distributed = 0, 1, False
    if args.dist and "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo")
        args.distributed = True
    else:
        print("Not using distributed mode")


def make_maps(n, size=40):
    g = torch.Generator().manual_seed(0)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    r = (yy**2 + xx**2).sqrt()
    y = torch.randint(0, len(PATTERNS), (n,), generator=g)
    maps = torch.empty(n, 1, size, size)
    for i in range(n):
        p = torch.full((size, size), 0.12)
        k = int(y[i])
        u = torch.rand(3, generator=g)
        if k == 0:
            p += 0.6 * (r < 0.25 + 0.15 * u[0])
        elif k == 1:
            p += 0.5 * ((r > 0.3 + 0.1 * u[0]) & (r < 0.55 + 0.1 * u[0]))
        elif k == 2:
            p += 0.5 * (r > 0.8 + 0.08 * u[0])
        elif k == 3:
            a = float(u[0]) * math.pi
            p += 0.6 * ((xx * math.cos(a) + yy * math.sin(a) - 0.6 * (u[1] - 0.5)).abs() < 0.05)
        elif k == 4:
            p += 0.2
        maps[i, 0] = (torch.rand(size, size, generator=g) < p).float() * (r <= 1)
    return maps, y


class WaferNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 24, 5, padding=2)
        self.c2 = nn.Conv2d(24, 48, 3, padding=1)
        self.c3 = nn.Conv2d(48, 64, 3, padding=1)
        self.fc = nn.Linear(64 * 25, len(PATTERNS))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.max_pool2d(F.relu(self.c3(x)), 2)
        return self.fc(F.dropout(x.flatten(1), 0.4, self.training))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dist", action="store_true")
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--epochs", type=int, default=60)
    args = ap.parse_args()
    init_distributed_mode(args)
    torch.manual_seed(args.rank)
    data = TensorDataset(*make_maps(9000))
    sampler = DistributedSampler(data) if args.distributed else None
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, shuffle=sampler is None, drop_last=True)
    model = WaferNet()
    net = DDP(model) if args.distributed else model
    opt = torch.optim.SGD(net.parameters(), lr=args.lr * args.world_size, momentum=0.9, weight_decay=1e-4)
    out = tempfile.mkdtemp(prefix="wafer-")
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        net.train()
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 20 == 0:
                print(f"[rank {args.rank}/{args.world_size}] Epoch: [{epoch}] [{i:3d}/{len(loader)}] loss: {loss.item():.4f}")
        if args.rank == 0:
            torch.save(model.state_dict(), os.path.join(out, "checkpoint.pth"))


if __name__ == "__main__":
    main()
