"""A deep ensemble: each process trains its own member from its own seed on all the data; their votes are compared each epoch."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def rings(n, g):
    y = torch.randint(0, 3, (n,), generator=g)
    a = 6.2832 * torch.rand(n, generator=g)
    r = 1.0 + y + 0.35 * torch.randn(n, generator=g)
    return torch.stack([r * a.cos(), r * a.sin()], 1), y


def member(number, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=number, world_size=world)
    torch.manual_seed(1000 + number)
    net = nn.Sequential(nn.Linear(2, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 3))
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    g = torch.Generator().manual_seed(5)
    x, y = rings(20000, g)
    tx, ty = rings(1000, g)
    shuffle = torch.Generator().manual_seed(number)
    for epoch in range(10000):
        for i, pick in enumerate(torch.randperm(len(x), generator=shuffle).split(1024)):
            loss = nn.functional.cross_entropy(net(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                print(f"member {number} epoch {epoch} batch {i} nll {loss.item():.4f}", flush=True)
        with torch.no_grad():
            vote = net(tx).softmax(1)
        votes = [torch.empty_like(vote) for _ in range(world)]
        dist.all_gather(votes, vote)
        if number == 0:
            mean = torch.stack(votes).mean(0)
            print(f"ensemble epoch {epoch}: acc {(mean.argmax(1) == ty).float().mean():.4f}, disagree {(votes[0].argmax(1) != votes[1].argmax(1)).float().mean():.4f}", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--port", type=int, default=int(os.environ.get("PORT", 29755)))
    mp.start_processes(member, args=(2, p.parse_args().port), nprocs=2, start_method="spawn")
