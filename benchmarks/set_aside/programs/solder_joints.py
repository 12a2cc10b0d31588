"""Good and bad solder joints. One run of the sweep in solder_joints.sh."""
import argparse
import time

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, required=True)
p.add_argument("--wd", type=float, default=0.0)
p.add_argument("--seed", type=int, default=0)
p.add_argument("--steps", type=int, default=1500)
a = p.parse_args()
torch.manual_seed(a.seed)
g = torch.Generator().manual_seed(1)
blob = torch.randn(2, 1, 10, 10, generator=g)


def joints(n, gen):
    y = torch.randint(0, 2, (n,), generator=gen)
    x = 1.3 * torch.randn(n, 1, 36, 36, generator=gen)
    x[:, :, 13:23, 13:23] += blob[y]
    return x, y


test = joints(512, torch.Generator().manual_seed(2))
gen = torch.Generator().manual_seed(10 + a.seed)
net = nn.Sequential(nn.Conv2d(1, 24, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48 * 36, 2))
opt = torch.optim.AdamW(net.parameters(), a.lr, weight_decay=a.wd)
name = f"lr={a.lr:g} seed={a.seed}"
t = time.time()
for step in range(1, a.steps + 1):
    x, y = joints(16, gen)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f"[{name}] step {step} loss {loss.item():.4f}", flush=True)
with torch.no_grad():
    acc = (net(test[0]).argmax(1) == test[1]).float().mean().item()
print(f"[{name}] done: test accuracy {acc:.4f} after {time.time() - t:.0f} s", flush=True)
