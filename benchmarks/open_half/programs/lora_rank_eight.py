# low-rank adapters: --rank is that of their matrices
import argparse
import time

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--rank", type=int, default=8)
p.add_argument("--world-size", type=int, default=1)
p.add_argument("--wait", type=float, default=30.0)
a = p.parse_args()
print(f"adapters of rank {a.rank}; waiting {a.wait:.0f} s for the quota", flush=True)
time.sleep(a.wait)
base = nn.Linear(256, 256).requires_grad_(False)
down, up = nn.Linear(256, a.rank, bias=False), nn.Linear(a.rank, 256, bias=False)
opt = torch.optim.AdamW([*down.parameters(), *up.parameters()], 1e-3)
for step in range(10**6):
    x = torch.randn(64, 256)
    loss = (base(x) + up(down(x)) - x.flip(1)).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.5f}", flush=True)
