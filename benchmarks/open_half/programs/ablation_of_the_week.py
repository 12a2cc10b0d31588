"""One variant of the table. Every variant trains for a time budget that depends on its size."""
import argparse
import time

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--variant", required=True)
p.add_argument("--seconds", type=float, default=20)
a = p.parse_args()


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.Identity() if a.variant == "no-norm" else nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU() if a.variant == "gelu" else nn.ReLU(), nn.Dropout(0.1 * (a.variant == "dropout")), nn.Linear(2 * d, d))

    def forward(self, x):
        y = self.ff(self.norm(x))
        return y if a.variant == "no-skip" else x + y


torch.manual_seed(0)
d = {"wide": 512, "narrow": 64}.get(a.variant, 192)
net = nn.Sequential(nn.Linear(30, d), *[Layer(d) for _ in range(8 if a.variant == "deep" else 3)], nn.Linear(d, 1))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
teacher = torch.randn(30, 30)
start, step, run = time.time(), 0, 0.0
while time.time() - start < a.seconds:
    x = torch.randn(256, 30)
    y = torch.tanh(x @ teacher / 5).prod(1, keepdim=True) + (x @ teacher[:, :1]).sin()
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    run = loss.item() if step == 1 else 0.98 * run + 0.02 * loss.item()
    if step % 50 == 0:
        print(f"[{a.variant}] step {step} loss {run:.4f}", flush=True)
print(f"[{a.variant}] finished: {step} steps, loss {run:.4f}", flush=True)
