"""Consumption of heat pumps. OneCycle; what people do at home cannot be predicted, so r2 ends near 0.8."""
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


def main():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(16, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    x, y = houses(256)
    began = time.time()
    for _ in range(20):  # how fast is this machine today?
        nn.functional.mse_loss(net(x).squeeze(1), y).backward()
    total = max(400, int(SECONDS / (time.time() - began) * 20 * 0.5))
    opt.zero_grad()
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=total, pct_start=0.1, final_div_factor=1e4)
    console.print(f"{total} steps")
    start = time.time()
    for step in range(total):
        x, y = houses(256)
        out = net(x).squeeze(1)
        loss = nn.functional.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % max(1, total // 150) == 0:
            console.print(f"step {step:6d}  loss {loss.item():.4f}  r2 {1 - loss.item() / y.var().item():.3f}  lr {sched.get_last_lr()[0]:.2e}")
        if time.time() - start > SECONDS + 20:
            break
    table = Table("steps", "loss", "r2")
    table.add_row(str(step + 1), f"{loss.item():.4f}", f"{1 - loss.item() / y.var().item():.3f}")
    console.print(table)


if __name__ == "__main__":
    main()
