"""Fault detection in smart meter load profiles. torchrun --nproc_per_node=2 meter_faults.py"""
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class TrainConfig:
    n: int = 16000
    length: int = 192
    batch_size: int = 64
    lr: float = 1e-3
    epochs: int = 200
    seed: int = 2024


def profiles(cfg):
    g = torch.Generator().manual_seed(0)
    t = torch.arange(cfg.length) / 96 * 2 * torch.pi
    y = torch.randint(4, (cfg.n,), generator=g)
    ph = torch.rand(cfg.n, 1, generator=g)
    x = torch.sin(t + 6 * ph) + 0.5 * torch.sin(3 * t + 4 * ph) + 0.6 * torch.randn(cfg.n, cfg.length, generator=g)
    start = torch.randint(20, cfg.length - 40, (cfg.n,), generator=g)
    for i in range(cfg.n):
        s = int(start[i])
        if y[i] == 1:
            x[i, s:s + 12] = x[i, s]
        elif y[i] == 2:
            x[i, s:s + 6] += 2.0
        elif y[i] == 3:
            x[i, s:] *= 0.6
    return TensorDataset(x.unsqueeze(1), y)


class TCN(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.inp = nn.Conv1d(1, w, 5, padding=2)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv1d(w, w, 3, padding=2 ** i, dilation=2 ** i), nn.GroupNorm(4, w), nn.ReLU())
                                    for i in range(5))
        self.head = nn.Linear(2 * w, 4)

    def forward(self, x):
        h = self.inp(x)
        for b in self.blocks:
            h = h + b(h)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(cfg.seed)
        self.model = DDP(TCN())
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr * self.world)
        self.loader = DataLoader(profiles(cfg), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
        self.loss_fn = nn.CrossEntropyLoss()

    def log(self, msg):
        if self.rank == 0:
            print(msg, flush=True)

    def train(self):
        for epoch in range(self.cfg.epochs):
            for it, (x, y) in enumerate(self.loader):
                loss = self.loss_fn(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                if it % 20 == 0:
                    self.log(f"epoch {epoch:3d} it {it:4d}/{len(self.loader)} loss {loss.item():.4f}")


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    Trainer(TrainConfig()).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
