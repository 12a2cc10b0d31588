#!/usr/bin/env python3
"""Click-through model on sharded impression logs."""
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

BATCH_SIZE = 256
N_SHARDS = 7
ROWS_PER_SHARD = 48000
N_USERS, N_ITEMS, DIM = 20000, 5000, 32
EPOCHS = 12
LOG_EVERY = 10


def load_shard(k):
    g = torch.Generator().manual_seed(100 + k)
    u = torch.randint(N_USERS, (ROWS_PER_SHARD,), generator=g)
    i = torch.randint(N_ITEMS, (ROWS_PER_SHARD,), generator=g)
    ctx = torch.randn(ROWS_PER_SHARD, 16, generator=g)
    logit = torch.sin(u.float() * 0.37) * torch.cos(i.float() * 0.73) * 2 + ctx[:, 0] - 0.5
    return u, i, ctx, torch.bernoulli(torch.sigmoid(logit), generator=g)


class ImpressionStream(IterableDataset):
    def __init__(self, rank, world):
        self.shards = list(range(N_SHARDS))[rank::world]
        self.epoch = 0

    def __iter__(self):
        order = torch.randperm(len(self.shards), generator=torch.Generator().manual_seed(self.epoch)).tolist()
        for k in order:
            u, i, c, y = load_shard(self.shards[k])
            perm = torch.randperm(len(y))
            for b in perm.split(BATCH_SIZE):
                yield u[b], i[b], c[b], y[b]


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(N_USERS, DIM), nn.Embedding(N_ITEMS, DIM)
        self.mlp = nn.Sequential(nn.Linear(3 * DIM + 16, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, u, i, c):
        a, b = self.users(u), self.items(i)
        return self.mlp(torch.cat([a, b, a * b, c], 1)).squeeze(1)


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group(backend="nccl" if cuda else "gloo")
    rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    torch.manual_seed(rank)
    stream = ImpressionStream(rank, world)
    loader = DataLoader(stream, batch_size=None)
    model = DDP(TwoTower().to(device))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    bce = nn.BCEWithLogitsLoss()
    print(f"rank {rank}: shards {stream.shards}", flush=True)
    for epoch in range(EPOCHS):
        stream.epoch = epoch
        total, n, t = 0.0, 0, time.time()
        for batch in loader:
            u, i, c, y = (v.to(device, non_blocking=True) for v in batch)
            loss = bce(model(u, i, c), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total, n = total + loss.item(), n + 1
            if rank == 0 and n % LOG_EVERY == 0:
                print(f"epoch {epoch} batch {n} logloss {total / n:.4f} ({n * BATCH_SIZE * world / (time.time() - t):.0f} rows/s)", flush=True)
        stats = torch.tensor([total, float(n)], dtype=torch.float64, device=device)
        dist.barrier()
        dist.all_reduce(stats)
        if rank == 0:
            print(f"epoch {epoch}: logloss {(stats[0] / stats[1]).item():.4f}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ.get("TMPDIR", "/tmp"), "two_tower.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
