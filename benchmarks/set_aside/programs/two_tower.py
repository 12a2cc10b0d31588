"""Two-tower retrieval model, in-batch negatives.

torchrun --nproc-per-node=N two_tower.py
"""
import os
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@dataclass
class Conf:
    users: int = 8000
    items: int = 5000
    pairs: int = 400_000
    dim: int = 64
    hidden: int = 256
    batch: int = 256
    lr: float = 1e-3
    temperature: float = 0.1
    epochs: int = 50
    log_every: int = 20


class Tower(nn.Module):
    def __init__(self, n, dim, hidden):
        super().__init__()
        self.table = nn.Embedding(n, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.table(ids)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.user_tower = Tower(c.users, c.dim, c.hidden)
        self.item_tower = Tower(c.items, c.dim, c.hidden)

    def encode_user(self, u):
        return self.user_tower(u)

    def encode_item(self, i):
        return self.item_tower(i)

    def forward(self, u, i):
        return self.encode_user(u), self.encode_item(i)


def interactions(c):
    g = torch.Generator().manual_seed(0)
    taste = torch.randint(0, 50, (c.users,), generator=g)
    u = torch.randint(0, c.users, (c.pairs,), generator=g)
    i = taste[u] * (c.items // 50) + torch.randint(0, c.items // 50, (c.pairs,), generator=g)
    noise = torch.rand(c.pairs, generator=g) < 0.1
    i[noise] = torch.randint(0, c.items, (int(noise.sum()),), generator=g)
    return TensorDataset(u, i)


class Trainer:
    def __init__(self, c):
        self.c = c
        self.rank = dist.get_rank()
        self.local = int(os.environ["LOCAL_RANK"])
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", self.local) if cuda else torch.device("cpu")
        torch.manual_seed(17)
        self.model = DDP(TwoTower(c).to(self.device), device_ids=[self.local] if cuda else None)
        self.opt = torch.optim.Adam(self.model.parameters(), c.lr)
        data = interactions(c)
        self.sampler = DistributedSampler(data, shuffle=True, drop_last=True)
        self.loader = DataLoader(data, c.batch, sampler=self.sampler, drop_last=True)

    def loss(self, u, i):
        user = self.model.module.encode_user(u)
        item = self.model.module.encode_item(i)
        logits = user @ item.T / self.c.temperature
        return F.cross_entropy(logits, torch.arange(len(u), device=self.device))

    def train(self):
        t0, seen = time.time(), 0
        for epoch in range(self.c.epochs):
            self.sampler.set_epoch(epoch)
            for n, (u, i) in enumerate(self.loader):
                loss = self.loss(u.to(self.device), i.to(self.device))
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                seen += len(u)
                if n % self.c.log_every == 0:
                    print(f"[{self.rank}] epoch {epoch} batch {n}/{len(self.loader)} loss {loss.item():.4f} "
                          f"{seen / (time.time() - t0):.0f} pairs/s", flush=True)
            dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    Trainer(Conf()).train()
    dist.destroy_process_group()
