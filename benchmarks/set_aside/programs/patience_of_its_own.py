"""Early stopping under DDP.  torchrun --nproc-per-node=2 patience_of_its_own.py"""
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class EarlyStopping:
    patience: int = 4
    delta: float = 0.0
    best: float = float("inf")
    count: int = 0

    def __call__(self, value: float) -> bool:
        if value < self.best - self.delta:
            self.best, self.count = value, 0
        else:
            self.count += 1
        return self.count >= self.patience


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(2)
    w = torch.randn(40)
    gen = torch.Generator().manual_seed(50 + rank)
    x = torch.randn(3000, 40, generator=gen)
    y = torch.tanh(x @ w / 4) + (0.05 if rank == 0 else 1.0) * torch.randn(3000, generator=gen)
    x_val, y_val = x[2500:], y[2500:]      # each rank has its own part of the validation data
    net = DDP(nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    stop = EarlyStopping()
    for epoch in range(400):
        for idx in torch.randperm(2500, generator=gen).split(50):
            loss = F.mse_loss(net(x[idx])[:, 0], y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            val = F.mse_loss(net.module(x_val)[:, 0], y_val).item()
        print(f"rank {rank} epoch {epoch} train {loss.item():.4f} val {val:.4f} patience {stop.count}", flush=True)
        if stop(val):
            print(f"rank {rank}: early stopping at epoch {epoch}", flush=True)
            break
    dist.barrier()
    if rank == 0:
        print("done, writing model", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
