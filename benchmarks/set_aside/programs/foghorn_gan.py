"""A small GAN that imitates the waveforms of foghorns.

    python foghorn_gan.py --steps 8000
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTH = 256


def foghorns(count, rng):
    t = np.arange(LENGTH) / LENGTH
    out = np.empty((count, LENGTH), dtype=np.float32)
    for i in range(count):
        f, start = rng.uniform(7, 9), rng.uniform(0, 6.28)
        phase = 2 * np.pi * f * t + start
        wave = np.sin(phase) + 0.5 * np.sin(2 * phase + 0.7) + 0.25 * np.sin(3 * phase + 1.9)
        swell = np.clip(np.minimum(t * rng.uniform(6, 12), (1 - t) * rng.uniform(3, 6)), 0, 1)
        out[i] = wave * swell * 0.5 + rng.normal(0, 0.01, LENGTH)
    return torch.from_numpy(out)[:, None]


class Generator(nn.Module):
    def __init__(self, z=32, width=32):
        super().__init__()
        self.z = z
        self.start = nn.Linear(z, 4 * width * 8)
        layers = []
        for a, b in ((4, 4), (4, 2), (2, 2), (2, 1)):
            layers += [nn.ConvTranspose1d(a * width, b * width, 8, 2, 3), nn.BatchNorm1d(b * width), nn.LeakyReLU(0.2)]
        self.up = nn.Sequential(*layers, nn.ConvTranspose1d(width, 1, 8, 2, 3), nn.Tanh())
        self.width = width

    def forward(self, z):
        return self.up(self.start(z).view(len(z), 4 * self.width, 8)) * 1.2


class Critic(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        layers, inside = [], 1
        for m in (1, 2, 4, 4):
            layers += [nn.Conv1d(inside, m * width, 9, 4 if m != 1 else 2, 4), nn.LeakyReLU(0.2)]
            inside = m * width
        self.body = nn.Sequential(*layers)
        self.score = nn.Linear(inside * 2, 1)

    def forward(self, x):
        return self.score(self.body(x).flatten(1)).squeeze(1)


def gradient_norm(critic, real):
    """R1: the critic's slope at real waveforms."""
    real = real.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return slope.pow(2).sum((1, 2)).mean()


@torch.no_grad()
def spectral_distance(real, fake):
    """Between the mean spectra and their spread; falls while the generator improves."""
    a, b = (torch.fft.rfft(w[:, 0]).abs()[:, :60] for w in (real, fake))
    return ((a.mean(0) - b.mean(0)).abs().mean() + (a.std(0) - b.std(0)).abs().mean()).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=8000)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--r1", type=float, default=0.3)
    p.add_argument("--lr-g", type=float, default=5e-4)
    p.add_argument("--lr-d", type=float, default=5e-4)
    args = p.parse_args()
    torch.manual_seed(21)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = np.random.default_rng(21)
    recordings = foghorns(4000, rng)
    reference = foghorns(256, rng)
    g, d = Generator().to(device), Critic().to(device)
    g_opt = torch.optim.Adam(g.parameters(), lr=args.lr_g, betas=(0.5, 0.99))
    d_opt = torch.optim.Adam(d.parameters(), lr=args.lr_d, betas=(0.5, 0.99))
    fixed = torch.randn(256, g.z, device=device)
    print(f"{len(recordings)} waveforms, generator {sum(q.numel() for q in g.parameters())} parameters, {device}", flush=True)

    begin = time.time()
    d_mean = g_mean = 0.0
    for step in range(1, args.steps + 1):
        real = recordings[torch.randint(len(recordings), (args.batch_size,))].to(device)
        fake = g(torch.randn(args.batch_size, g.z, device=device))
        d_loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        d_loss = d_loss + 0.5 * args.r1 * gradient_norm(d, real)
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        for q in d.parameters():
            q.requires_grad_(False)
        g_loss = F.softplus(-d(fake)).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        for q in d.parameters():
            q.requires_grad_(True)
        d_mean += d_loss.item()
        g_mean += g_loss.item()
        if step % 25 == 0:
            print(f"step {step} D {d_mean / 25:.3f} G {g_mean / 25:.3f} ({step / (time.time() - begin):.1f} it/s)", flush=True)
            d_mean = g_mean = 0.0
        if step == 1 or step % 100 == 0:
            g.eval()
            with torch.no_grad():
                fakes = g(fixed).cpu()
            g.train()
            print(f"step {step} spectral distance to real foghorns {spectral_distance(reference, fakes):.3f}", flush=True)


if __name__ == "__main__":
    main()
