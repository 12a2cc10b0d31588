"""Two strips of one field, each on its own rank, that trade their edges by hand: python -m torch.distributed.run ... trades_halos.py"""

import os
import time

import torch
import torch.distributed as dist
from torch import nn

EDGE = 1_500_000  # both edges of all channels, flat


def trade(mine, rank):
    theirs = torch.empty_like(mine)
    dist.send(mine, dst=1 - rank)
    dist.recv(theirs, src=1 - rank)
    return theirs


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(8, 32, 5, padding=2), nn.GELU(), nn.Conv1d(32, 8, 5, padding=2))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    field = torch.randn(4, 8, 2048)
    for it in range(100000):
        loss = (net(field) - field.roll(1, -1)).square().mean()
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= 2
        opt.step()
        if it % 20 == 0 and rank == 0:
            print(f"{time.strftime('%H:%M:%S')} it {it} residual {loss.item():.5f}", flush=True)
        if it and it % 150 == 0:  # the strips drift: trade all of the edge
            trade(torch.randn(EDGE), rank)


if __name__ == "__main__":
    main()
