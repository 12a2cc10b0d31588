import argparse
import time

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--norm", choices=["layer", "none"], default="layer")
p.add_argument("--act", choices=["gelu", "relu"], default="gelu")
p.add_argument("--short", action="store_true")
a = p.parse_args()
name = f"{a.norm}/{a.act}"
act = nn.GELU if a.act == "gelu" else nn.ReLU
torch.manual_seed(1)


def layer(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.LayerNorm(o) if a.norm == "layer" else nn.Identity(), act())


net = nn.Sequential(layer(64, 512), layer(512, 512), layer(512, 512), nn.Linear(512, 20))
opt = torch.optim.AdamW(net.parameters(), 5e-4)
teacher = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 20)).requires_grad_(False)
for m in teacher:
    if isinstance(m, nn.Linear):
        m.weight.mul_(3)
limit, t0, step = (25 if a.short else 75), time.time(), 0
while time.time() - t0 < limit:
    x = torch.randn(192, 64)
    loss = nn.functional.cross_entropy(net(x), teacher(x).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 100 == 0:
        print(f"{name} step {step} loss {loss.item():.4f}", flush=True)
print(f"RESULT {name} {loss.item():.4f} after {step} steps", flush=True)
