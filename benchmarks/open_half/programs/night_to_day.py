"""Unpaired night -> day translation on 32x32 crops: two generators, two discriminators, least-squares losses."""
import itertools
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.InstanceNorm2d(o), nn.ReLU())


def generator():
    return nn.Sequential(conv(3, 24), conv(24, 48, 2), conv(48, 48), nn.Upsample(scale_factor=2), conv(48, 24), nn.Conv2d(24, 3, 3, 1, 1), nn.Tanh())


def discriminator():
    return nn.Sequential(nn.Conv2d(3, 24, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(24, 48, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(48, 1, 4, 1, 1))


class ImagePool:
    """Shows the discriminator a history of generated images."""

    def __init__(self, size=50):
        self.size, self.images = size, []

    def query(self, batch):
        out = []
        for image in batch.detach():
            if len(self.images) < self.size:
                self.images.append(image)
                out.append(image)
            elif random.random() > 0.5:
                k = random.randrange(self.size)
                out.append(self.images[k])
                self.images[k] = image
            else:
                out.append(image)
        return torch.stack(out)


def crops(kind, n, g):
    x = torch.rand(n, 3, 8, 8, generator=g).repeat_interleave(4, 2).repeat_interleave(4, 3)
    return x * 0.4 - 0.9 if kind == "night" else x * 1.2 - 0.3


torch.manual_seed(0)
random.seed(0)
G_ab, G_ba, D_a, D_b = generator(), generator(), discriminator(), discriminator()
opt_G = torch.optim.Adam(itertools.chain(G_ab.parameters(), G_ba.parameters()), 2e-4, betas=(0.5, 0.999))
opt_D = torch.optim.Adam(itertools.chain(D_a.parameters(), D_b.parameters()), 2e-4, betas=(0.5, 0.999))
pool_a, pool_b, g = ImagePool(), ImagePool(), torch.Generator().manual_seed(1)


def real(x):
    return F.mse_loss(x, torch.ones_like(x))


def fake(x):
    return F.mse_loss(x, torch.zeros_like(x))


for epoch in range(1, 500):
    t = time.time()
    for i in range(60):
        a, b = crops("night", 4, g), crops("day", 4, g)
        fb, fa = G_ab(a), G_ba(b)
        adv = real(D_b(fb)) + real(D_a(fa))
        cyc = 10 * (F.l1_loss(G_ba(fb), a) + F.l1_loss(G_ab(fa), b))
        opt_G.zero_grad()
        (adv + cyc).backward()
        opt_G.step()
        opt_D.zero_grad()
        d = 0.5 * (real(D_a(a)) + fake(D_a(pool_a.query(fa))) + real(D_b(b)) + fake(D_b(pool_b.query(fb))))
        d.backward()
        opt_D.step()
        if i % 20 == 0:
            print(f"(epoch: {epoch}, iters: {i}, time: {(time.time() - t) / (i + 1):.3f}) G_GAN: {adv.item():.3f} cycle: {cyc.item():.3f} D: {d.item():.3f}", flush=True)
