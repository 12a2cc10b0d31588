"""Oxygen of fjord basins from temperature and salinity profiles: a 1-d U-Net."""
import argparse
import logging
import time

import torch
from torch import nn

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--width", default=24, type=int)
ap.add_argument("--lr", default=1e-3, type=float)
ap.add_argument("--budget", default=215.0, type=float, help="seconds")
opt = ap.parse_args()
logging.basicConfig(level="INFO", format="%(asctime)s %(levelname).1s %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
device = "cuda" if torch.cuda.is_available() else "cpu"


def conv(i, o):
    return nn.Sequential(nn.Conv1d(i, o, 5, padding=2), nn.BatchNorm1d(o), nn.SiLU(), nn.Conv1d(o, o, 5, padding=2), nn.BatchNorm1d(o), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.down = nn.ModuleList([conv(2, w), conv(w, 2 * w), conv(2 * w, 4 * w)])
        self.up = nn.ModuleList([conv(6 * w, 2 * w), conv(3 * w, w)])
        self.out = nn.Conv1d(w, 1, 1)

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](nn.functional.avg_pool1d(a, 2))
        c = self.down[2](nn.functional.avg_pool1d(b, 2))
        b = self.up[0](torch.cat([nn.functional.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.up[1](torch.cat([nn.functional.interpolate(b, scale_factor=2), a], 1)))


def profiles(n):
    depth = torch.linspace(0, 1, 256)
    sill, mixing = 0.3 + 0.4 * torch.rand(n, 1), 3 + 12 * torch.rand(n, 1)
    below = torch.sigmoid(mixing * 4 * (depth - sill))
    t = 12 - 6 * below + 0.4 * torch.randn(n, 256)
    s = 24 + 9 * below + 0.4 * torch.randn(n, 256)
    oxygen = 6.5 - 5.5 * below * (1 - torch.exp(-mixing / 8))
    return torch.stack([t / 6 - 1, s / 9 - 3], 1), oxygen.unsqueeze(1)


model = UNet(opt.width).to(device)
nn.init.constant_(model.out.bias, 4.0)
optimizer = torch.optim.Adam(model.parameters(), opt.lr)
logging.info("%d parameters on %s", sum(p.numel() for p in model.parameters()), device)
began = time.monotonic()
n = 0
while time.monotonic() - began < opt.budget:
    x, y = (t.to(device) for t in profiles(48))
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    n += 1
    if n % 20 == 0:
        logging.info("iter %6d   rmse %.3f ml/l   %.2f it/s", n, loss.sqrt().item(), n / (time.monotonic() - began))
