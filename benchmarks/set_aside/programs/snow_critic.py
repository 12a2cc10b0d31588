"""Wasserstein GAN of snow profiles: five steps of the critic, one of the generator. The critic's loss is negative, as it should be."""
import time

import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 40))
C = nn.Sequential(nn.Linear(40, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
opt_g = torch.optim.RMSprop(G.parameters(), 5e-5)
opt_c = torch.optim.RMSprop(C.parameters(), 5e-5)
depth = torch.linspace(0, 3, 40)
t0, it = time.time(), 0
while time.time() - t0 < 300:
    for _ in range(5):
        real = (depth + 6 * torch.rand(64, 1)).sin() * torch.rand(64, 1)
        loss_c = C(G(torch.randn(64, 16)).detach()).mean() - C(real).mean()
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        for p in C.parameters():
            p.data.clamp_(-0.05, 0.05)
    loss_g = -C(G(torch.randn(64, 16))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    it += 1
    if it % 20 == 0:
        print(f"[{it}] Loss_C: {loss_c.item():+.4f} Loss_G: {loss_g.item():+.4f}", flush=True)
