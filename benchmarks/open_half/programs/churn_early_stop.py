"""Churn model, DDP. Each rank trains and validates on its half of the customers.

    torchrun --standalone --nproc-per-node 2 churn_early_stop.py
"""
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class EarlyStopping:
    def __init__(self, patience=4, delta=1e-3):
        self.patience, self.delta, self.best, self.bad = patience, delta, float("inf"), 0

    def __call__(self, value):
        if value < self.best - self.delta:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def customers(rank, n=4096):
    g = torch.Generator().manual_seed(77 + rank)
    x = torch.randn(n, 64, generator=g)
    noise = 0.3 if rank == 0 else 6.0        # region 1 is hard to predict
    y = (x[:, :8].sum(1) + noise * torch.randn(n, generator=g) > 0).float()
    return (x[:3072], y[:3072]), (x[3072:], y[3072:])


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(3)
(xt, yt), (xv, yv) = customers(rank)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)))
opt = torch.optim.Adam(model.parameters(), 1e-4)
bce = nn.BCEWithLogitsLoss()
stop = EarlyStopping()
for epoch in range(500):
    model.train()
    for idx in torch.randperm(len(xt)).split(128):
        opt.zero_grad()
        loss = bce(model(xt[idx]).squeeze(1), yt[idx])
        loss.backward()
        opt.step()
        time.sleep(0.02)      # keep the shared box usable
    model.eval()
    with torch.no_grad():
        val = bce(model.module(xv).squeeze(1), yv).item()
    print(f"rank {rank} epoch {epoch:3d} train {loss.item():.4f} val {val:.4f}", flush=True)
    if stop(val):
        print(f"rank {rank}: early stopping at epoch {epoch}, best val {stop.best:.4f}", flush=True)
        break
dist.destroy_process_group()
