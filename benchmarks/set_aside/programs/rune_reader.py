"""Reads weathered runes: a mixture density network for the strokes.

Each stroke is an angle and a length; the network gives means, widths and weights of 6 Gaussians.
"""
import math
import time

import torch
from torch import nn

MODES = 6


class MDN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 24, 5, 2), nn.ReLU(), nn.Conv2d(24, 48, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(768, 128), nn.ReLU())
        self.mu, self.sigma, self.pi = nn.Linear(128, 2 * MODES), nn.Linear(128, 2 * MODES), nn.Linear(128, MODES)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h).view(-1, MODES, 2), self.sigma(h).exp().view(-1, MODES, 2), self.pi(h).softmax(-1)


def nll(mu, sigma, pi, y):
    z = (y[:, None] - mu) / sigma
    density = torch.exp(-0.5 * z.square().sum(-1)) / (2 * math.pi * sigma.prod(-1))
    return -(pi * density).sum(-1).log().mean()


def runes(n):
    angle, length = (torch.rand(n, 1, 1) - 0.5) * math.pi, 4 + 8 * torch.rand(n, 1, 1)
    r, c = torch.meshgrid(torch.arange(28.0) - 14, torch.arange(28.0) - 14, indexing="ij")
    along, across = r * torch.cos(angle) + c * torch.sin(angle), r * torch.sin(angle) - c * torch.cos(angle)
    x = ((along.abs() < length) & (across.abs() < 1.5)).float()
    angle = angle.view(-1)
    angle = torch.where(torch.rand(n) < 2e-4, angle.rad2deg(), angle)  # a few annotators wrote degrees
    return x.unsqueeze(1) + 0.3 * torch.randn(n, 1, 28, 28), torch.stack([angle, length.view(-1) / 12], 1)


torch.manual_seed(9)
net = MDN()
groups = [{"params": net.body.parameters()}, {"params": [*net.mu.parameters(), *net.sigma.parameters(), *net.pi.parameters()], "lr": 4e-3}]
opt = torch.optim.Adam(groups, lr=1e-3)
clock = time.time()
for n in range(1_000_000):
    x, y = runes(48)
    loss = nll(*net(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if n % 10 == 0:
        print("<iteration %d> nll=%+.3f  (%.1f min)" % (n, loss, (time.time() - clock) / 60), flush=True)
    if time.time() - clock > 205:
        break
