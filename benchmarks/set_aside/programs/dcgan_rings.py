"""DCGAN on procedurally drawn rings, hinge loss, instance noise."""
import argparse
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm as SN

ap = argparse.ArgumentParser()
ap.add_argument("--iters", type=int, default=20000)
ap.add_argument("--bs", type=int, default=32)
ap.add_argument("--zdim", type=int, default=64)
ap.add_argument("--lr_g", type=float, default=4e-4)
ap.add_argument("--lr_d", type=float, default=1e-4)
ap.add_argument("--n_critic", type=int, default=1)
ap.add_argument("--inst_noise", type=float, default=0.5, help="decays to 0.1 over 5000 iterations")
ap.add_argument("--ema", type=float, default=0.999)
ap.add_argument("--eval_every", type=int, default=200)
opt = ap.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(42)


def rings(n, s=32):
    c = torch.rand(n, 2, 1, 1) * 10 + 11
    r = torch.rand(n, 1, 1) * 5 + 5
    yy, xx = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
    d = ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2).sqrt()
    img = torch.exp(-((d - r) ** 2) / 3)
    col = torch.rand(n, 3, 1, 1)
    return (img[:, None] * col) * 2 - 1


class G(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.fc = nn.Linear(opt.zdim, 4 * w * 16)
        self.w = w
        self.net = nn.Sequential(
            nn.BatchNorm2d(4 * w), nn.ReLU(), nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1),
            nn.BatchNorm2d(2 * w), nn.ReLU(), nn.ConvTranspose2d(2 * w, w, 4, 2, 1),
            nn.BatchNorm2d(w), nn.ReLU(), nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 4 * self.w, 4, 4))


class D(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.net = nn.Sequential(
            SN(nn.Conv2d(3, w, 4, 2, 1)), nn.LeakyReLU(0.2),
            SN(nn.Conv2d(w, 2 * w, 4, 2, 1)), nn.LeakyReLU(0.2),
            SN(nn.Conv2d(2 * w, 4 * w, 4, 2, 1)), nn.LeakyReLU(0.2))
        self.out = SN(nn.Linear(4 * w * 16, 1))

    def forward(self, x):
        return self.out(self.net(x).flatten(1)).squeeze(1)


data = rings(5000)
g, d, g_ema = G().to(device), D().to(device), G().to(device)
g_ema.load_state_dict(g.state_dict())
g_ema.requires_grad_(False)
og = torch.optim.Adam(g.parameters(), lr=opt.lr_g, betas=(0.0, 0.9))
od = torch.optim.Adam(d.parameters(), lr=opt.lr_d, betas=(0.0, 0.9))
fixed = torch.randn(256, opt.zdim, device=device)


@torch.no_grad()
def moment_distance():
    # cheap stand-in for FID: distance of the first two moments of pooled pixels
    g_ema.eval()
    fake = F.avg_pool2d(g_ema(fixed), 4).flatten(1)
    real = F.avg_pool2d(data[:1024].to(device), 4).flatten(1)
    m = (fake.mean(0) - real.mean(0)).pow(2).sum()
    c = (torch.cov(fake.T) - torch.cov(real.T)).pow(2).sum()
    return (m + c).item()


print(f"G {sum(p.numel() for p in g.parameters()) / 1e6:.2f}M  D {sum(p.numel() for p in d.parameters()) / 1e6:.2f}M  {device}", flush=True)
t = time.time()
for it in range(1, opt.iters + 1):
    sigma = max(0.1, opt.inst_noise * (1 - it / 5000))
    for _ in range(opt.n_critic):
        x = data[torch.randint(0, len(data), (opt.bs,))].to(device)
        with torch.no_grad():
            f = g(torch.randn(opt.bs, opt.zdim, device=device))
        dr, df = d(x + sigma * torch.randn_like(x)), d(f + sigma * torch.randn_like(f))
        loss_d = F.relu(1 - dr).mean() + F.relu(1 + df).mean()
        od.zero_grad()
        loss_d.backward()
        od.step()
    f = g(torch.randn(opt.bs, opt.zdim, device=device))
    loss_g = -d(f + sigma * torch.randn_like(f)).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
    with torch.no_grad():
        for a, b in zip(g_ema.parameters(), g.parameters()):
            a.lerp_(b, 1 - opt.ema)
        for a, b in zip(g_ema.buffers(), g.buffers()):
            a.copy_(b)
    if it % 10 == 0:
        print(f"[{it:6d}] D {loss_d.item():.3f}  G {loss_g.item():+.3f}  D(x) {dr.mean().item():+.2f}  D(G(z)) {df.mean().item():+.2f}  "
              f"{10 / (time.time() - t):.1f} it/s", flush=True)
        t = time.time()
    if it % opt.eval_every == 0:
        print(f"[{it:6d}] moment distance {moment_distance():.4f}", flush=True)
