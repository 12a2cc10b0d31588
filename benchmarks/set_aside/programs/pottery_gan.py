"""Shapes of Greek vases: two networks that learn in turns, 20 steps each (outline profiles instead of photographs)."""
import sys
import time

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.manual_seed(6)
POINTS = 64


def vases(n):
    t = torch.linspace(0, 3.1416, POINTS)
    a, b, c = torch.rand(3, n, 1)
    return (0.3 + 0.5 * a) * torch.sin(t) + 0.2 * b * torch.sin(3 * t) + 0.1 * c + 0.01 * torch.randn(n, POINTS)


G = nn.Sequential(nn.Linear(16, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, POINTS))
D = nn.Sequential(nn.Linear(POINTS, 192), nn.LeakyReLU(0.2), nn.Linear(192, 192), nn.LeakyReLU(0.2), nn.Linear(192, 1))
opt_g = torch.optim.Adam(G.parameters(), 4e-4, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), 4e-4, betas=(0.5, 0.99))
turn, loss_g, loss_d = 0, float("nan"), float("nan")
begin = time.time()
while time.time() - begin < 215:
    for _ in range(20):
        real, fake = vases(128), G(torch.randn(128, 16))
        if turn % 2 == 0:
            loss = bce(D(real), torch.full((128, 1), 0.9)) + bce(D(fake.detach()), torch.zeros(128, 1))
            loss_d = loss.item()
            opt_d.zero_grad()
            loss.backward()
            opt_d.step()
        else:
            loss = bce(D(fake), torch.ones(128, 1))
            loss_g = loss.item()
            opt_g.zero_grad()
            loss.backward()
            opt_g.step()
    turn += 1
    sys.stdout.write(f"turn {turn:5d} [{'D' if turn % 2 else 'G'}]  loss_D {loss_d:.4f}  loss_G {loss_g:.4f}\n")
    sys.stdout.flush()
