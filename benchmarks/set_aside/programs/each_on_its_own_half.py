"""Two-process matrix factorization with neural heads. mp.spawn; each process gets its half of the ratings."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn


class NCF(nn.Module):
    def __init__(self, users=3000, items=2000, d=96):
        super().__init__()
        self.u, self.i = nn.Embedding(users, d), nn.Embedding(items, d)
        self.mlp = nn.Sequential(nn.Linear(2 * d, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 1))

    def forward(self, u, i):
        u, i = self.u(u), self.i(i)
        return self.mlp(torch.cat([u, i], -1)).squeeze(-1) + (u * i).sum(-1)


def ratings(n=200000):
    g = torch.Generator().manual_seed(11)
    a, b = torch.randn(3000, 6, generator=g), torch.randn(2000, 6, generator=g)
    u, i = torch.randint(0, 3000, (n,), generator=g), torch.randint(0, 2000, (n,), generator=g)
    return u, i, (a[u] * b[i]).sum(1) / 2.5 + 0.2 * torch.randn(n, generator=g)


def train(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", os.environ.get("PORT", "29733")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    model = NCF()
    for p in model.parameters():  # same start everywhere
        dist.broadcast(p.data, 0)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    u, i, r = (t[rank::world_size] for t in ratings())
    g = torch.Generator().manual_seed(rank)
    dist.barrier()
    for epoch in range(10000):
        order = torch.randperm(len(u), generator=g)
        for n, pick in enumerate(order.split(4096)):
            loss = nn.functional.mse_loss(model(u[pick], i[pick]), r[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and n % 5 == 0:
                print(f"epoch {epoch} [{n}/{len(order) // 4096}] mse {loss.item():.4f}", flush=True)
        if rank == 0:
            torch.save(model.state_dict(), os.devnull)


if __name__ == "__main__":
    mp.spawn(train, args=(2,), nprocs=2, join=True)
