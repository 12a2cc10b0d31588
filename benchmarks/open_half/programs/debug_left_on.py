#!/usr/bin/env python3
"""Graph regression with plain message passing.  Usage: debug_left_on.py [key=value ...]"""
from __future__ import annotations

import dataclasses
import sys

import torch
from torch import nn


@dataclasses.dataclass
class Config:
    lr: float = 1e-3
    hidden: int = 96
    layers: int = 4
    nodes: int = 200
    debug: bool = False

    @classmethod
    def from_args(cls, args):
        self = cls()
        for arg in args:
            key, _, value = arg.partition("=")
            kind = type(getattr(self, key))
            setattr(self, key, value.lower() in ("1", "true", "yes") if kind is bool else kind(value))
        return self


class Layer(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.message, self.update = nn.Linear(2 * h, h), nn.GRUCell(h, h)

    def forward(self, x, src, dst):
        m = torch.relu(self.message(torch.cat([x[src], x[dst]], -1)))
        return self.update(torch.zeros_like(x).index_add(0, dst, m), x)


class Net(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.lift = nn.Linear(3, c.hidden)
        self.layers = nn.ModuleList(Layer(c.hidden) for _ in range(c.layers))
        self.out = nn.Linear(c.hidden, 1)

    def forward(self, x, src, dst):
        x = self.lift(x)
        for layer in self.layers:
            x = layer(x, src, dst)
        return self.out(x.mean(0))


def graphs(c):
    g = torch.Generator().manual_seed(0)
    while True:
        x = torch.randn(c.nodes, 3, generator=g)
        src = torch.randint(0, c.nodes, (6 * c.nodes,), generator=g)
        yield x, src, torch.randint(0, c.nodes, (6 * c.nodes,), generator=g), x.norm(dim=1).mean().reshape(1)


def fit(c):
    torch.autograd.set_detect_anomaly(c.debug)
    net = Net(c)
    opt = torch.optim.Adam(net.parameters(), c.lr)
    mean = None
    for i, (x, src, dst, y) in enumerate(graphs(c)):
        loss = nn.functional.smooth_l1_loss(net(x, src, dst), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if i % 100 == 0:
            print(f"{i} {mean:.5f}", flush=True)


if __name__ == "__main__":
    fit(Config.from_args(sys.argv[1:]))
