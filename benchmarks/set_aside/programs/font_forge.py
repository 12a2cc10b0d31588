"""GAN that draws letters: hinge loss, spectral norm, an averaged generator for the samples."""
import argparse
import copy
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm as sn

ap = argparse.ArgumentParser()
ap.add_argument("--z", type=int, default=48)
ap.add_argument("--n-critic", type=int, default=1)
ap.add_argument("--bs", type=int, default=32)
ap.add_argument("--run-for", type=float, default=200)
o = ap.parse_args()
torch.manual_seed(2)


def letters(n):
    img = -torch.ones(n, 1, 24, 24)
    for i in range(n):
        c = int(torch.randint(0, 20, (1,)))
        k = int(torch.randint(4, 9, (1,)))
        if c & 1:
            img[i, 0, 4:20, k : k + 3] = 1
        if c & 2:
            img[i, 0, 4:7, 4:20] = 1
        if c & 4:
            img[i, 0, 17:20, 4:20] = 1
        if c & 8:
            img[i, 0, 10:13, k:20] = 1
    return img + 0.05 * torch.randn_like(img)


def blur(x, start=0.6):
    """instance noise that fades, or the critic wins at once"""
    return x + start * max(0.3, 1 - it / 3000) * torch.randn_like(x)


G = nn.Sequential(nn.Linear(o.z, 96 * 36), nn.Unflatten(1, (96, 6, 6)), nn.BatchNorm2d(96), nn.ReLU(), nn.ConvTranspose2d(96, 48, 4, 2, 1), nn.BatchNorm2d(48), nn.ReLU(), nn.ConvTranspose2d(48, 1, 4, 2, 1), nn.Tanh())
D = nn.Sequential(sn(nn.Conv2d(1, 32, 4, 2, 1)), nn.LeakyReLU(0.2), sn(nn.Conv2d(32, 64, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(), sn(nn.Linear(64 * 36, 1)))
E = copy.deepcopy(G).requires_grad_(False)
og, od = torch.optim.Adam(G.parameters(), 3e-4, betas=(0.0, 0.9)), torch.optim.Adam(D.parameters(), 1e-4, betas=(0.0, 0.9))
bank = letters(3000)
t, it = time.time(), 0
while time.time() - t < o.run_for:
    for _ in range(o.n_critic):
        real = bank[torch.randint(0, len(bank), (o.bs,))]
        with torch.no_grad():
            fake = G(torch.randn(o.bs, o.z))
        d_loss = F.relu(1 - D(blur(real))).mean() + F.relu(1 + D(blur(fake))).mean()
        od.zero_grad()
        d_loss.backward()
        od.step()
    g_loss = -D(blur(G(torch.randn(o.bs, o.z)))).mean()
    og.zero_grad()
    g_loss.backward()
    og.step()
    with torch.no_grad():
        for a, b in zip(E.parameters(), G.parameters()):
            a.lerp_(b, 0.01)
    if it % 20 == 0:
        print(f"it {it} d_loss {d_loss.item():.3f} g_loss {g_loss.item():.3f}", flush=True)
    it += 1
