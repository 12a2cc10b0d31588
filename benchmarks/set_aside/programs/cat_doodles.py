# DDPM on cat doodles, one file. pip install torch, then run.
import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
T = 300
IMG = 24
BATCH = 32
betas = torch.linspace(1e-4, 0.04, T).to(device)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)
out_dir = tempfile.mkdtemp(prefix="doodles-")


def doodles(n):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, IMG), torch.linspace(-1, 1, IMG), indexing="ij")
    cx, cy = 0.3 * torch.randn(n, 1, 1), 0.2 * torch.randn(n, 1, 1)
    r = 0.35 + 0.1 * torch.rand(n, 1, 1)
    head = ((xx - cx) ** 2 + (yy - cy) ** 2 < r**2).float()
    ears = torch.zeros_like(head)
    for side in (-1, 1):
        ears += ((xx - cx - side * r * 0.7).abs() + (yy - cy + r).abs() < 0.25).float()
    return ((head + ears).clamp(0, 1) * 2 - 1).unsqueeze(1)


def time_embedding(t, dim):
    freq = torch.exp(-math.log(1e4) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    a = t[:, None].float() * freq
    return torch.cat([a.sin(), a.cos()], 1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.t = nn.Linear(tdim, cout)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, c=24, tdim=64):
        super().__init__()
        self.tdim = tdim
        self.tm = nn.Sequential(nn.Linear(tdim, tdim), nn.SiLU())
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.d1, self.d2 = ResBlock(c, c, tdim), ResBlock(c, 2 * c, tdim)
        self.mid = ResBlock(2 * c, 2 * c, tdim)
        self.u2, self.u1 = ResBlock(4 * c, c, tdim), ResBlock(2 * c, c, tdim)
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t):
        t = self.tm(time_embedding(t, self.tdim))
        h1 = self.d1(self.inp(x), t)
        h2 = self.d2(F.avg_pool2d(h1, 2), t)
        m = self.mid(F.avg_pool2d(h2, 2), t)
        y = self.u2(torch.cat([F.interpolate(m, scale_factor=2), h2], 1), t)
        y = self.u1(torch.cat([F.interpolate(y, scale_factor=2), h1], 1), t)
        return self.out(y)


@torch.no_grad()
def sample(model, n):
    x = torch.randn(n, 1, IMG, IMG, device=device)
    for i in reversed(range(T)):
        t = torch.full((n,), i, device=device)
        eps = model(x, t)
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


def save_grid(x, path):
    """8 x 2 pictures as a pgm file, so that no extra package is needed"""
    x = ((x.clamp(-1, 1) + 1) * 127.5).byte().cpu()
    rows = [torch.cat(list(x[i : i + 8, 0]), 1) for i in range(0, len(x), 8)]
    grid = torch.cat(rows, 0)
    with open(path, "wb") as f:
        f.write(b"P5 %d %d 255\n" % (grid.shape[1], grid.shape[0]))
        f.write(bytes(grid.flatten().tolist()))


data = doodles(2000)
model = UNet().to(device)
opt = torch.optim.AdamW(model.parameters(), lr=4e-4)
print("params", sum(p.numel() for p in model.parameters()), "samples go to", out_dir)
for step in range(1, 20001):
    x0 = data[torch.randint(0, len(data), (BATCH,))].to(device)
    t = torch.randint(0, T, (BATCH,), device=device)
    noise = torch.randn_like(x0)
    xt = abar[t].sqrt()[:, None, None, None] * x0 + (1 - abar[t]).sqrt()[:, None, None, None] * noise
    loss = F.mse_loss(model(xt, t), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
    # look at what it draws
    if step % 60 == 0:
        model.eval()
        save_grid(sample(model, 16), os.path.join(out_dir, "latest.pgm"))
        model.train()
