"""Successive halving over learning rates and widths: 8 runs, the worse half ends after each rung. One process.

Rates up to 3 are in the grid on purpose, to see where it breaks; such runs are dropped.
"""
import itertools
import math
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

console = Console(width=100, force_terminal=False)


def data(n, g):
    x = torch.randn(n, 32, generator=g)
    return x, (x[:, :16] * x[:, 16:]).sum(1, keepdim=True) / 4


class Trial:
    def __init__(self, number, lr, width):
        self.number, self.lr, self.width = number, lr, width
        torch.manual_seed(number)
        self.net = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.opt, self.g, self.steps, self.loss = torch.optim.SGD(self.net.parameters(), lr, 0.9), torch.Generator().manual_seed(0), 0, math.inf

    def run(self, steps):
        total = 0.0
        for _ in range(steps):
            x, y = data(256, self.g)
            loss = nn.functional.mse_loss(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() / steps
            if not math.isfinite(total):
                break
        self.steps, self.loss = self.steps + steps, total if math.isfinite(total) else math.inf


def show(bracket, rung, trials):
    table = Table("trial", "lr", "width", "steps", "loss", title=f"bracket {bracket}, rung {rung}")
    for t in sorted(trials, key=lambda t: t.loss):
        table.add_row(str(t.number), f"{t.lr:g}", str(t.width), str(t.steps), "diverged" if t.loss == math.inf else f"{t.loss:.5f}")
    console.print(table)


def main(seconds=210):
    start, bracket = time.time(), 0
    while time.time() - start < seconds:
        grid = itertools.product((3e-3, 3e-2, 3e-1, 3.0), (128, 384))
        trials = [Trial(10 * bracket + i, lr, width) for i, (lr, width) in enumerate(grid)]
        for rung in range(4):
            for t in trials:
                t.run(120 * 2**rung)
                console.print(f"trial {t.number}: {t.steps} steps, loss {t.loss:.5f}")
            show(bracket, rung, trials)
            trials = sorted(trials, key=lambda t: t.loss)[: max(1, len(trials) // 2)]
            if time.time() - start > seconds:
                return
        bracket += 1


if __name__ == "__main__":
    main()
