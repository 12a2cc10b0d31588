import numpy as np
import torch
from torch import nn

# generator for anonymised payment records (mixture of numeric columns), WGAN-GP as in the internal wiki
BATCH, Z, COLS = 256, 32, 16
N_CRITIC = 3
ITERS = 40_000
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.default_rng(8)
torch.manual_seed(8)

k = rng.integers(0, 6, 50_000)
mix = rng.normal(0, 1.5, (6, COLS))
real = torch.tensor(mix[k] + rng.normal(0, 0.4, (50_000, COLS)), dtype=torch.float32)


def mlp(i, o, h=384, norm=False):
    def layer(a, b):
        return [nn.Linear(a, b)] + ([nn.BatchNorm1d(b)] if norm else []) + [nn.LeakyReLU(0.2)]
    return nn.Sequential(*layer(i, h), *layer(h, h), *layer(h, h), nn.Linear(h, o))


G, D = mlp(Z, COLS, norm=True).to(dev), mlp(COLS, 1).to(dev)
og = torch.optim.Adam(G.parameters(), 2e-4, betas=(0.5, 0.9))
od = torch.optim.Adam(D.parameters(), 2e-4, betas=(0.5, 0.9))


def batch():
    return real[torch.randint(0, len(real), (BATCH,))].to(dev)


def penalty(x, f):
    a = torch.rand(len(x), 1, device=dev)
    m = (a * x + (1 - a) * f).requires_grad_(True)
    g, = torch.autograd.grad(D(m).sum(), m, create_graph=True)
    return ((g.norm(2, 1) - 1) ** 2).mean()


def moments():
    G.eval()
    with torch.no_grad():
        f = G(torch.randn(10_000, Z, device=dev)).cpu()
    G.train()
    return (f.mean(0) - real.mean(0)).abs().mean().item(), (torch.cov(f.T) - torch.cov(real.T)).abs().mean().item()


print("records", tuple(real.shape), "device", dev, flush=True)
for it in range(1, ITERS + 1):
    for _ in range(N_CRITIC):
        x = batch()
        f = G(torch.randn(BATCH, Z, device=dev)).detach()
        ld = D(f).mean() - D(x).mean() + 10 * penalty(x, f)
        od.zero_grad()
        ld.backward()
        od.step()
    lg = -D(G(torch.randn(BATCH, Z, device=dev))).mean()
    og.zero_grad()
    lg.backward()
    og.step()
    if it % 50 == 0:
        print(f"it {it:5d}  d_loss {ld.item():+.3f}  g_loss {lg.item():+.3f}", flush=True)
    if it % 500 == 0:
        m, c = moments()
        print(f"it {it:5d}  mean gap {m:.3f}  covariance gap {c:.3f}", flush=True)
