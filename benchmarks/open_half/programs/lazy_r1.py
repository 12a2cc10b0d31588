"""GAN with lazy R1: the gradient penalty is computed every 16th step, as in StyleGAN2."""
import itertools

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
Z = 32


def up(i, o):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, padding=1), nn.LeakyReLU(0.2))


def down(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.LeakyReLU(0.2))


G = nn.Sequential(nn.Linear(Z, 32 * 16), nn.Unflatten(1, (32, 4, 4)), up(32, 24), up(24, 16), nn.Conv2d(16, 1, 3, padding=1), nn.Tanh())
D = nn.Sequential(down(1, 16), down(16, 32), nn.Flatten(), nn.Linear(32 * 16, 1))
g_opt = torch.optim.Adam(G.parameters(), 2e-3, betas=(0.0, 0.99))
d_opt = torch.optim.Adam(D.parameters(), 2e-3, betas=(0.0, 0.99))
rows, cols = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")


def real(n):
    centre = torch.rand(n, 2, 1, 1) - 0.5
    return ((rows - centre[:, :1]) ** 2 + (cols - centre[:, 1:]) ** 2).mul(-8).exp().mul(2).sub(1)


ema = {k: v.clone() for k, v in G.state_dict().items()}
for step in itertools.count():
    x = real(32)
    d_loss = F.softplus(-D(x)).mean() + F.softplus(D(G(torch.randn(32, Z)).detach())).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    if step % 16 == 0:
        x.requires_grad_(True)
        for _ in range(2):
            grad, = torch.autograd.grad(D(x).sum(), x, create_graph=True)
            r1 = grad.square().sum((1, 2, 3)).mean()
            d_opt.zero_grad()
            (r1 * 8).backward()
            d_opt.step()
    g_loss = F.softplus(-D(G(torch.randn(32, Z)))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    for k, v in G.state_dict().items():
        ema[k].lerp_(v, 0.01)
    if step % 100 == 0:
        print("step", step, "Loss_D: %.4f Loss_G: %.4f r1: %.4f" % (d_loss, g_loss, r1), flush=True)
