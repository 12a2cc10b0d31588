"""Load forecast of transformer stations: 96 hours in, 24 hours out. lr is scaled with the effective batch, as in the paper."""
import argparse
import math
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--base-lr", type=float, default=0.01)
parser.add_argument("--micro-batch", type=int, default=32)
parser.add_argument("--accum", type=int, default=4)
parser.add_argument("--world", type=int, default=16, help="number of GPUs the recipe was written for")
parser.add_argument("--warmup", type=int, default=2000)
parser.add_argument("--clip", type=float, default=1.0)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
lr_max = args.base_lr * args.accum * args.world
TOTAL = 200_000


class Mixer(nn.Module):
    def __init__(self, channels=7, hidden=128):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(96, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 24))
        self.mix = nn.Linear(channels, channels)

    def forward(self, x):  # batch, channels, 96
        y = self.time(x)
        return y + self.mix(y.transpose(1, 2)).transpose(1, 2)


def windows(n):
    t = torch.rand(n, 7, 1) * 1000 + torch.arange(120)
    day = torch.sin(2 * math.pi * t / 24 + torch.arange(7)[:, None]) + 0.4 * torch.sin(2 * math.pi * t / 168)
    y = day + 0.1 * torch.randn(n, 7, 120)
    return y[..., :96], y[..., 96:]


model = Mixer()
opt = torch.optim.AdamW(model.parameters(), lr=lr_max, weight_decay=0.01)
print(f"peak lr {lr_max:.3f} after {args.warmup} steps", flush=True)
t0 = time.time()
for step in range(1, TOTAL):
    lr = lr_max * min(1.0, (step / args.warmup) ** 2) * (0.5 + 0.5 * math.cos(step / TOTAL * math.pi))
    opt.param_groups[0]["lr"] = lr
    opt.zero_grad()
    total = 0.0
    for _ in range(args.accum):
        x, y = windows(args.micro_batch)
        loss = nn.functional.mse_loss(model(x), y) / args.accum
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    opt.step()
    if step % 25 == 0:
        print(f"step {step} | loss {total:.4f} | lr {lr:.2e} | {(time.time() - t0) / step * 1000:.0f} ms", flush=True)
