"""Demand for rental cargo bikes: a transformer over the last three days of 300 stations.

The batch that the paper uses does not fit, so gradients of 12 micro batches are added up, and the ranks talk once per update.
"""
import contextlib
import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

MICRO, ACCUMULATE, CONTEXT = 8, 12, 72


class Stations(Dataset):
    def __init__(self, stations=300, hours=24 * 60):
        g = torch.Generator().manual_seed(9)
        t = torch.arange(hours).float()
        level = torch.exp(0.5 * torch.randn(stations, 1, generator=g))
        peak = 8 + 9 * torch.rand(stations, 1, generator=g)
        rate = level * (0.3 + torch.exp(-(((t[None] % 24) - peak) ** 2) / 8) + 0.5 * ((t[None] // 24) % 7 > 4))
        self.counts = torch.log1p(torch.poisson(4 * rate, generator=g))
        self.hours = hours

    def __len__(self):
        return 40_000

    def __getitem__(self, i):
        station = i % len(self.counts)
        start = (i * 7919) % (self.hours - CONTEXT - 12)
        hour = (torch.arange(start, start + CONTEXT) % 168) / 168 * 2 * math.pi
        past = self.counts[station, start : start + CONTEXT]
        x = torch.stack([past, hour.sin(), hour.cos(), (7 * hour).sin(), (7 * hour).cos()], 1)
        return x, self.counts[station, start + CONTEXT : start + CONTEXT + 12]


class Forecaster(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.inp = nn.Linear(5, d)
        self.pos = nn.Parameter(0.02 * torch.randn(CONTEXT, d))
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.out = nn.Linear(d, 12)

    def forward(self, x):
        return self.out(self.body(self.inp(x) + self.pos).mean(1))


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", init_method="env://")
    rank = dist.get_rank()
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu")
    torch.manual_seed(1234)
    data = Stations()
    sampler = DistributedSampler(data, seed=5)
    loader = DataLoader(data, MICRO, sampler=sampler, drop_last=True)
    model = DDP(Forecaster().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), 6e-4)
    torch.manual_seed(1234 + rank)  # other dropout on each rank
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    update = 0
    for epoch in range(20):
        sampler.set_epoch(epoch)
        total = 0.0
        for micro, (x, y) in enumerate(loader, 1):
            last = micro % ACCUMULATE == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.smooth_l1_loss(model(x.to(device)), y.to(device), beta=0.3)
                (loss / ACCUMULATE).backward()
            total += loss.item() / ACCUMULATE
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                update += 1
                if update % 5 == 0:
                    print(f"rank {rank} | epoch {epoch} | update {update} | loss {total:.4f}", flush=True)
                total = 0.0
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
