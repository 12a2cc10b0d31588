"""Corals of a reef survey: cover of 12 kinds, and the depth where the diver noted it."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class ReefNet(nn.Module):
    def __init__(self, kinds=12, d=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, d, 5, 4, 2), nn.ReLU(), nn.Conv2d(d, d, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.cover = nn.Linear(4 * d, kinds)
        self.depth = nn.Sequential(nn.Linear(4 * d, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, with_depth):
        h = self.trunk(x)
        return self.cover(h).softmax(-1), self.depth(h).squeeze(-1) if with_depth else None


def quadrats(n, g):
    """Photographs of squares of the reef; whether the dive has depths is the same for all of a batch."""
    cover = torch.distributions.Dirichlet(torch.full((12,), 0.4)).sample((n,))
    colours = torch.rand(12, 3, generator=torch.Generator().manual_seed(3))
    x = (cover @ colours).view(n, 3, 1, 1) + 0.2 * torch.randn(n, 3, 64, 64, generator=g)
    depth = 5 + 20 * torch.rand(n, generator=g) if torch.rand((), generator=g) < 0.8 else None
    return x, cover, depth


def thumbnails(g, seconds=4.0):
    """The cache is in memory: made anew at each start."""
    cache, start = [], time.time()
    while time.time() - start < seconds:
        cache.append(quadrats(8, g))
    return cache


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    print(f"rank {rank}: start no. {attempt + 1}", flush=True)
    g = torch.Generator().manual_seed(17)  # the same order of dives everywhere
    cache = thumbnails(g)
    torch.manual_seed(0)
    net = DDP(ReefNet())
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for step in range(100_000):
        x, cover, depth = cache[step % len(cache)]
        predicted, d = net(x, depth is not None)
        loss = nn.functional.l1_loss(predicted, cover)
        if depth is not None:
            loss = loss + 0.01 * nn.functional.l1_loss(d, depth)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            sys.stdout.write(f"step {step}: loss {loss.item():.5f}\n")
            sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
