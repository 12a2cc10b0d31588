"""Consumption of heat pumps. One cycle of the rate; what people do at home cannot be predicted, so r2 ends near 0.8."""
import math
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

SECONDS = 205
console = Console(width=90, force_terminal=False)


def houses(n):
    x = torch.randn(n, 16)
    explained = torch.sin(x[:, 0]) * 1.5 + x[:, 1] * x[:, 2].sigmoid() + 0.7 * torch.relu(x[:, 3] - 0.3) - 0.4 * x[:, 4]
    return x, explained + 0.75 * torch.randn(n)


def rate(spent, top=4e-3):
    """One cycle over the time that we have: up for a tenth of it, then down to nearly nothing."""
    if spent < 0.1:
        return top * (0.04 + 0.96 * spent / 0.1)
    return top * (1e-5 + 0.5 * (1 + math.cos(math.pi * (spent - 0.1) / 0.9)))


def main():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(16, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    start, step, printed = time.time(), 0, 0.0
    while (spent := (time.time() - start) / SECONDS) < 1:
        for group in opt.param_groups:
            group["lr"] = rate(spent)
        x, y = houses(256)
        out = net(x).squeeze(1)
        loss = nn.functional.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if spent - printed > 0.007:
            printed = spent
            console.print(f"step {step:6d}  loss {loss.item():.4f}  r2 {1 - loss.item() / y.var().item():.3f}  lr {rate(spent):.2e}")
    table = Table("steps", "loss", "r2")
    table.add_row(str(step), f"{loss.item():.4f}", f"{1 - loss.item() / y.var().item():.3f}")
    console.print(table)


if __name__ == "__main__":
    main()
