"""Which wine goes with which cheese: matrix factorisation with a small tower on top, two processes (torchrun)."""
import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--guests", type=int, default=80_000)
ap.add_argument("--cheeses", type=int, default=600)
ap.add_argument("--dim", type=int, default=64)
ap.add_argument("--batch", type=int, default=256)
ap.add_argument("--lr", type=float, default=0.05)
hp = ap.parse_args()


class Pairing(nn.Module):
    def __init__(self):
        super().__init__()
        self.guest = nn.Embedding(hp.guests, hp.dim)
        self.cheese = nn.Embedding(hp.cheeses, hp.dim)
        for e in (self.guest, self.cheese):
            nn.init.normal_(e.weight, std=0.1)
        self.tower = nn.Sequential(nn.Linear(2 * hp.dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, u, i):
        a, b = self.guest(u), self.cheese(i)
        return (a * b).sum(1) + self.tower(torch.cat([a, b], 1))[:, 0]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    taste = torch.randn(hp.guests, 4), torch.randn(hp.cheeses, 4)
    liked = 3 * torch.randn(hp.cheeses)
    net = DDP(Pairing())
    opt = torch.optim.Adagrad(net.parameters(), hp.lr)
    if rank == 0:
        print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M parameters", flush=True)
    torch.manual_seed(rank + 1)
    seen, t0, total = 0, time.time(), 0.0
    while True:
        u, i = torch.randint(0, hp.guests, (hp.batch,)), torch.randint(0, hp.cheeses, (hp.batch,))
        y = ((taste[0][u] * taste[1][i]).sum(1) + liked[i] > 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(net(u, i), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        seen += 1
        if seen % 20 == 0:
            if rank == 0:
                print(f"batch {seen}: {total / 20:.4f}  ({seen * hp.batch * 2 / (time.time() - t0):.0f} pairs/s)", flush=True)
            total = 0.0


main()
