"""Hourly load of substations, next 24 h from the last 96 h (GRU + linear head)."""
import argparse
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

p = argparse.ArgumentParser()
p.add_argument("--hidden", type=int, default=64)
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("--batch-size", type=int, default=64, help="per GPU")
p.add_argument("--epochs", type=int, default=60)
args = p.parse_args()

rank = int(os.environ.get("RANK", 0))
local_rank = int(os.environ.get("LOCAL_RANK", 0))
world_size = int(os.environ.get("WORLD_SIZE", 1))
cuda = torch.cuda.is_available()
device = torch.device(f"cuda:{local_rank}" if cuda else "cpu")
if world_size > 1:
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world_size)


class Load(Dataset):
    def __init__(self, stations=40, hours=24 * 120):
        g = np.random.default_rng(1)
        t = np.arange(hours)
        day = np.sin(2 * np.pi * t / 24)[None] * g.uniform(0.5, 1.5, (stations, 1))
        week = np.sin(2 * np.pi * t / 168)[None] * g.uniform(0.1, 0.6, (stations, 1))
        self.y = (day + week + 0.2 * g.standard_normal((stations, hours))).astype(np.float32)
        self.per = (hours - 120) // 4

    def __len__(self):
        return len(self.y) * self.per

    def __getitem__(self, i):
        s, k = divmod(i, self.per)
        w = self.y[s, 4 * k:4 * k + 120]
        return torch.from_numpy(w[:96, None]), torch.from_numpy(w[96:])


class Net(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.gru = nn.GRU(1, h, num_layers=2, batch_first=True)
        self.head = nn.Linear(h, 24)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


torch.manual_seed(1234)
ds = Load()
sampler = DistributedSampler(ds, num_replicas=world_size, rank=rank) if world_size > 1 else None
dl = DataLoader(ds, args.batch_size, sampler=sampler, shuffle=sampler is None, drop_last=True)
net = Net(args.hidden).to(device)
if world_size > 1:
    net = nn.parallel.DistributedDataParallel(net, device_ids=[local_rank] if cuda else None)
opt = torch.optim.Adam(net.parameters(), lr=args.lr)
mse = nn.MSELoss()

print(f"rank {rank}: {len(ds)} windows, {len(dl)} steps per epoch, device {device}")
for epoch in range(args.epochs):
    if sampler is not None:
        sampler.set_epoch(epoch)
    t0 = time.time()
    for i, (x, y) in enumerate(dl):
        loss = mse(net(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if i % 20 == 0:
            print(f"rank {rank} epoch {epoch} {i}/{len(dl)} mse {loss.item():.4f}")
    print(f"rank {rank} epoch {epoch} took {time.time() - t0:.1f}s")
