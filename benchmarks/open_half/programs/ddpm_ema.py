"""Denoising diffusion on a two-moons toy set. Keeps an EMA copy and draws samples from it every few hundred steps."""
import argparse, copy, math
import torch, torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument("--timesteps", type=int, default=200)
p.add_argument("--batch", type=int, default=256)
p.add_argument("--ema-decay", type=float, default=0.999)
p.add_argument("--sample-every", type=int, default=400)
args = p.parse_args()

betas = torch.linspace(1e-4, 0.02, args.timesteps)
abar = torch.cumprod(1 - betas, 0)


class Eps(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 + 32, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        f = torch.exp(-math.log(1e4) * torch.arange(16) / 16)
        a = t[:, None].float() * f
        return self.net(torch.cat([x, a.sin(), a.cos()], 1))


def moons(n):
    a = torch.rand(n) * math.pi
    up = torch.rand(n) < 0.5
    x = torch.where(up, a.cos(), 1 - a.cos())
    y = torch.where(up, a.sin(), 0.5 - a.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2)


@torch.no_grad()
def sample(model, n):
    x = torch.randn(n, 2)
    for t in reversed(range(args.timesteps)):
        e = model(x, torch.full((n,), t))
        x = (x - betas[t] / (1 - abar[t]).sqrt() * e) / (1 - betas[t]).sqrt()
        if t:
            x += betas[t].sqrt() * torch.randn_like(x)
    return x


model = Eps()
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
step = 0
while True:
    x0 = moons(args.batch)
    t = torch.randint(0, args.timesteps, (args.batch,))
    noise = torch.randn_like(x0)
    xt = abar[t].sqrt()[:, None] * x0 + (1 - abar[t]).sqrt()[:, None] * noise
    loss = (model(xt, t) - noise).pow(2).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    with torch.no_grad():
        for e, q in zip(ema.parameters(), model.parameters()):
            e.lerp_(q, 1 - args.ema_decay)
    step += 1
    if step % 100 == 0:
        print(f"step {step:6d} | loss {loss.item():.4f}", flush=True)
    if step % args.sample_every == 0:
        pts = sample(ema, 2000)
        print(f"sampled 2000 points, mean {pts.mean(0).tolist()}", flush=True)
