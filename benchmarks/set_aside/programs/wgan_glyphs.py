"""WGAN-GP on rendered glyph-like shapes (32x32)."""
import argparse, time
import torch
from torch import nn, autograd

ap = argparse.ArgumentParser()
ap.add_argument("--z", type=int, default=64)
ap.add_argument("--ch", type=int, default=24)
ap.add_argument("--bs", type=int, default=32)
ap.add_argument("--n_critic", type=int, default=4)
ap.add_argument("--gp", type=float, default=10.0)
ap.add_argument("--gen_iters", type=int, default=6000)
ap.add_argument("--sample_interval", type=int, default=100)
opt = ap.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(9)


def glyphs(n):
    ax = torch.linspace(-1, 1, 32)
    y, x = torch.meshgrid(ax, ax, indexing="ij")
    x, y = x[None], y[None]
    img = torch.zeros(n, 32, 32)
    for _ in range(3):
        a = torch.rand(n, 1, 1) * 3.1416
        c = torch.rand(n, 1, 1) - 0.5
        l = 0.4 + 0.5 * torch.rand(n, 1, 1)
        d = (x * a.cos() + y * a.sin() - c).abs()
        along = (-x * a.sin() + y * a.cos()).abs()
        img = torch.maximum(img, ((d < 0.09) & (along < l)).float())
    return img[:, None] * 2 - 1


G = nn.Sequential(
    nn.Unflatten(1, (opt.z, 1, 1)),
    nn.ConvTranspose2d(opt.z, 4 * opt.ch, 4), nn.BatchNorm2d(4 * opt.ch), nn.ReLU(),
    nn.ConvTranspose2d(4 * opt.ch, 2 * opt.ch, 4, 2, 1), nn.BatchNorm2d(2 * opt.ch), nn.ReLU(),
    nn.ConvTranspose2d(2 * opt.ch, opt.ch, 4, 2, 1), nn.BatchNorm2d(opt.ch), nn.ReLU(),
    nn.ConvTranspose2d(opt.ch, 1, 4, 2, 1), nn.Tanh()).to(device)
D = nn.Sequential(
    nn.Conv2d(1, opt.ch, 4, 2, 1), nn.LeakyReLU(0.2),
    nn.Conv2d(opt.ch, 2 * opt.ch, 4, 2, 1), nn.LeakyReLU(0.2),
    nn.Conv2d(2 * opt.ch, 4 * opt.ch, 4, 2, 1), nn.LeakyReLU(0.2),
    nn.Flatten(), nn.Linear(4 * opt.ch * 16, 1)).to(device)
gopt = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.0, 0.9))
dopt = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.0, 0.9))
real_set = glyphs(4000)
fixed = torch.randn(64, opt.z, device=device)


def gradient_penalty(real, fake):
    eps = torch.rand(len(real), 1, 1, 1, device=device)
    mid = (eps * real + (1 - eps) * fake).requires_grad_()
    grad = autograd.grad(D(mid).sum(), mid, create_graph=True)[0]
    return (grad.flatten(1).norm(2, 1) - 1).pow(2).mean()


t0 = time.time()
for it in range(opt.gen_iters):
    for _ in range(opt.n_critic):
        real = real_set[torch.randint(len(real_set), (opt.bs,))].to(device)
        with torch.no_grad():
            fake = G(torch.randn(opt.bs, opt.z, device=device))
        wdist = D(real).mean() - D(fake).mean()
        d_loss = -wdist + opt.gp * gradient_penalty(real, fake)
        dopt.zero_grad()
        d_loss.backward()
        dopt.step()
    g_loss = -D(G(torch.randn(opt.bs, opt.z, device=device))).mean()
    gopt.zero_grad()
    g_loss.backward()
    gopt.step()
    if it % 5 == 0:
        print("[Iter %d/%d] [D loss: %f] [G loss: %f] [W: %f]" % (it, opt.gen_iters, d_loss.item(), g_loss.item(), wdist.item()), flush=True)
    if it % opt.sample_interval == 0 and it:
        with torch.no_grad():
            ink = (G(fixed) > 0).float().mean().item()
        print("samples: %.3f ink (data %.3f), %.0fs" % (ink, (real_set > 0).float().mean().item(), time.time() - t0), flush=True)
