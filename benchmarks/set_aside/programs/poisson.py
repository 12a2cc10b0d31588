"""Poisson's equation by a small network and L-BFGS: few steps, many evaluations in each."""
import math
import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
t0, outer = time.time(), 0
while time.time() - t0 < 300:
    outer += 1
    opt = torch.optim.LBFGS(net.parameters(), lr=1, max_iter=12, line_search_fn="strong_wolfe")
    x = torch.rand(800, 1, requires_grad=True)

    def closure():
        opt.zero_grad()
        u = net(x) * x * (1 - x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        ddu = torch.autograd.grad(du.sum(), x, create_graph=True)[0]
        loss = ((ddu + math.pi**2 * (math.pi * x).sin()) ** 2).mean()
        loss.backward()
        return loss

    print(f"LBFGS {outer:4d}  residual {opt.step(closure).item():.3e}", flush=True)
