"""Predicts the next frames of dune ripples. Deep for its memory: each block is computed again in the backward pass."""
import argparse
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--blocks", type=int, default=6)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--accumulate", type=int, default=4)
parser.add_argument("--warmup", type=int, default=100)
parser.add_argument("--seconds", type=float, default=230)
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class Ripples(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, args.width)
        self.pos = nn.Parameter(0.02 * torch.randn(64, args.width))
        self.blocks = nn.ModuleList(Block(args.width) for _ in range(args.blocks))
        self.out = nn.Linear(args.width, 16)

    def forward(self, x):
        h = self.inp(x) + self.pos
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return self.out(h)


def frames(n):
    """Rows of sand heights, and the same rows a while later."""
    k = torch.rand(n, 1, 1) * 0.6 + 0.1
    phase = torch.rand(n, 64, 1) * 0.3 + torch.rand(n, 1, 1) * 6
    t = torch.arange(16)
    now = torch.sin(k * t + phase)
    return now + 0.05 * torch.randn(n, 64, 16), torch.sin(k * (t + 4) + phase)


torch.manual_seed(0)
net = Ripples()
optimizer = torch.optim.AdamW(net.parameters(), 5e-4)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / args.warmup))
start, update = time.time(), 0
while time.time() - start < args.seconds:
    total = 0.0
    for _ in range(args.accumulate):
        x, y = frames(4)
        loss = nn.functional.mse_loss(net(x), y) / args.accumulate
        loss.backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    update += 1
    if update % 2 == 0:
        print(f"update {update} | loss {total:.4f} | grad {norm:.2f} | lr {scheduler.get_last_lr()[0]:.1e} | {time.time() - start:.0f}s", flush=True)
