"""Grain size distribution from a photo; one setting of the sweep."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--lr", type=float)
p.add_argument("--width", type=int)
p.add_argument("--seconds", type=float, default=55)
a = p.parse_args()
tag = f"[lr={a.lr:g} width={a.width}]"
print(tag, "start", flush=True)
torch.manual_seed(0)


def photos(n):
    z = torch.rand(n, 3) + 0.05
    z = z / z.sum(1, keepdim=True)
    x = torch.zeros(n, 1, 64, 64)
    for k, size in enumerate((64, 16, 8)):
        x += z[:, k, None, None, None] * F.interpolate(torch.randn(n, 1, size, size), size=64)
    return x, z


x, z = photos(2000)
w = a.width
net = nn.Sequential(nn.Conv2d(1, w // 2, 5, 2, 2), nn.ReLU(), nn.Conv2d(w // 2, w, 3, 2, 1), nn.ReLU(), nn.Conv2d(w, w, 3, 2, 1), nn.ReLU(),
                    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(w, 3))
opt = torch.optim.Adam(net.parameters(), lr=a.lr)
began, step = time.time(), 0
while time.time() - began < a.seconds:
    i = torch.randint(len(x), (64,))
    loss = F.kl_div(F.log_softmax(net(x[i]), 1), z[i], reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 10 == 0:
        print(tag, f"step {step} kl {loss.item():.4f}", flush=True)
print(tag, f"finished after {step} steps, last kl {loss.item():.4f}", flush=True)
