"""Gulls, terns and skuas in drone pictures.   torchrun --nproc_per_node=2 gull_colonies.py"""
import argparse
import copy
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Writer:
    """Scalars and histograms, as far as we need them."""

    def __init__(self):
        self.scalars, self.histograms = {}, {}

    def add_scalar(self, tag, value, step):
        self.scalars[tag] = (step, value.item())

    def add_histogram(self, tag, values, step, bins=64):
        counts, edges = torch.histogram(values.detach().float().flatten(), bins)
        self.histograms[tag] = (step, counts.tolist(), edges.tolist())


def birds(n, g):
    y = torch.randint(0, 3, (n,), generator=g)
    x = 0.7 * torch.randn(n, 3, 40, 40, generator=g)
    for i in range(n):
        a, b = torch.randint(4, 28, (2,), generator=g).tolist()
        x[i, y[i], a : a + 5 + int(y[i]), b : b + 9] += 0.8
    return x, y


def network(c=20):
    return nn.Sequential(
        nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(2 * c, 3),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iters", type=int, default=60000)
    parser.add_argument("--ema", type=float, default=0.98)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DDP(network())
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    g = torch.Generator().manual_seed(50 + rank)
    held = birds(96, torch.Generator().manual_seed(1))
    if rank == 0:
        average, writer = copy.deepcopy(net.module).eval(), Writer()
    t0 = time.time()
    for it in range(args.iters):
        x, y = birds(16, g)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            with torch.no_grad():
                for a, b in zip(average.state_dict().values(), net.module.state_dict().values()):
                    a.copy_(args.ema * a + (1 - args.ema) * b)
                writer.add_scalar("held/accuracy", (average(held[0]).argmax(1) == held[1]).float().mean(), it)
            for name, p in net.module.named_parameters():
                writer.add_histogram(name, p, it)
                writer.add_histogram(f"{name}.grad", p.grad, it)
            writer.add_scalar("loss", loss, it)
            if it % 20 == 0:
                print(f"{it:6d} loss {loss.item():.4f} ema acc {writer.scalars['held/accuracy'][1]:.3f} {time.time() - t0:.0f}s", flush=True)


main()
