"""A VAE of snow profiles. The weight of the KL term grows from 0 to 1 during the training, so the sum grows, too."""
import time

import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, layers=120, z=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(layers, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, layers))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1).mean()
        recon = (self.dec(mu + (0.5 * logvar).exp() * torch.randn_like(mu)) - x).square().sum(-1).mean() / 0.5
        return recon, kl


def profiles(n):
    crusts = torch.zeros(n, 120).scatter_(1, torch.randint(0, 120, (n, 4)), 1.0)
    smooth = nn.functional.avg_pool1d(nn.functional.pad(crusts, (4, 4)).unsqueeze(1), 9, 1).squeeze(1) * 6
    return smooth + torch.linspace(0.5, 2, 120) * torch.rand(n, 1) + 0.1 * torch.randn(n, 120)


torch.manual_seed(2)
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), 1e-3)
DURATION = 210
began, step = time.time(), 0
while (elapsed := time.time() - began) < DURATION:
    beta = min(1.0, max(0.0, elapsed - 20) / 150)
    recon, kl = vae(profiles(96))
    loss = recon + beta * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 50 == 0:
        print(f"Step {step}: loss = {loss.item():.3f} (reconstruction {recon.item():.3f} + {beta:.2f} * KL {kl.item():.3f})", flush=True)
