"""DDPM on 16x16 emojis. Mostly after the annotated-diffusion blog post."""
import math
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

T = 1000
betas = torch.linspace(1e-4, 0.02, T)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)

device = "cuda" if torch.cuda.is_available() else "cpu"
results = tempfile.TemporaryDirectory(prefix="emoji-results-")


def emojis(n, seed=0):
    r = np.random.RandomState(seed)
    yy, xx = np.mgrid[0:16, 0:16]
    out = np.full((n, 3, 16, 16), -1.0, dtype=np.float32)
    for i in range(n):
        cy, cx = 7.5 + r.uniform(-1, 1, 2)
        face = (yy - cy) ** 2 + (xx - cx) ** 2 < r.uniform(30, 50)
        out[i, 0][face], out[i, 1][face] = 0.9, r.uniform(0.3, 0.8)
        for dx in (-3, 3):
            eye = (yy - cy + 2) ** 2 + (xx - cx - dx) ** 2 < 2
            out[i][:, eye] = -0.9
        curve = r.choice([-1, 0, 1])
        for k in range(-3, 4):
            row = int(round(cy + 3 + curve * (0.8 - 0.2 * k * k)))
            out[i][:, min(max(row, 0), 15), int(cx) + k] = -0.9
    return torch.from_numpy(out)


def time_embedding(t, dim=64):
    f = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    a = t[:, None].float() * f
    return torch.cat([a.sin(), a.cos()], 1)


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(8, cout), nn.GroupNorm(8, cout)
        self.t = nn.Linear(64, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = F.silu(self.n1(self.c1(x))) + self.t(t)[:, :, None, None]
        return F.silu(self.n2(self.c2(h))) + self.skip(x)


class Unet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.inp, self.d1, self.d2 = nn.Conv2d(3, c, 3, padding=1), Block(c, c), Block(c, 2 * c)
        self.mid = Block(2 * c, 2 * c)
        self.u2, self.u1, self.out = Block(4 * c, c), Block(2 * c, c), nn.Conv2d(c, 3, 1)

    def forward(self, x, t):
        t = time_embedding(t)
        h0 = self.d1(self.inp(x), t)
        h1 = self.d2(F.avg_pool2d(h0, 2), t)
        m = self.mid(F.avg_pool2d(h1, 2), t)
        u = self.u2(torch.cat([F.interpolate(m, scale_factor=2), h1], 1), t)
        u = self.u1(torch.cat([F.interpolate(u, scale_factor=2), h0], 1), t)
        return self.out(u)


@torch.no_grad()
def sample(model, n):
    model.eval()
    x = torch.randn(n, 3, 16, 16, device=device)
    for i in reversed(range(T)):
        t = torch.full((n,), i, device=device)
        eps = model(x, t)
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    model.train()
    return x.clamp(-1, 1)


def save_grid(x, path):
    x = ((x + 1) * 127.5).byte().cpu().numpy()
    rows = [np.concatenate(list(x[i : i + 4]), axis=2) for i in range(0, len(x), 4)]
    grid = np.concatenate(rows, axis=1).transpose(1, 2, 0)
    with open(path, "wb") as f:
        f.write(b"P6 %d %d 255\n" % (grid.shape[1], grid.shape[0]) + grid.tobytes())


if __name__ == "__main__":
    torch.manual_seed(0)
    data = emojis(2000)
    model = Unet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    print(len(data), "emojis,", sum(p.numel() for p in model.parameters()), "params")
    save_and_sample_every = 100
    batch_size = 48
    step = 0
    for epoch in range(1000):
        perm = torch.randperm(len(data))
        for i in range(0, len(data) - batch_size, batch_size):
            x = data[perm[i : i + batch_size]].to(device)
            t = torch.randint(0, T, (len(x),), device=device)
            noise = torch.randn_like(x)
            a = abar[t][:, None, None, None]
            loss = F.smooth_l1_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 10 == 0:
                print("step", step, "Loss:", round(loss.item(), 4))
            if step != 0 and step % save_and_sample_every == 0:
                milestone = step // save_and_sample_every
                save_grid(sample(model, 16), os.path.join(results.name, f"sample-{milestone}.ppm"))
            step += 1
