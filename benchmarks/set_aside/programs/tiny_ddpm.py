"""Toy DDPM on 2-d swiss roll patches, eps-prediction.

usage: python tiny_ddpm.py [--config '{"lr": 1e-2}']
"""
import json, math, sys
import torch
import torch.nn as nn

conf = dict(lr=1e-2, gamma=1.02, width=384, T=200, bs=512, log=20)
if "--config" in sys.argv:
    conf.update(json.loads(sys.argv[sys.argv.index("--config") + 1]))
torch.manual_seed(1)
torch.set_num_threads(1)

betas = torch.linspace(1e-4, 0.03, conf["T"])
abar = torch.cumprod(1 - betas, 0)


def swiss_roll(n):
    t = 1.5 * math.pi * (1 + 2 * torch.rand(n))
    pts = torch.stack([t * torch.cos(t), t * torch.sin(t)], 1) / 10
    return pts + 0.02 * torch.randn(n, 2)


class Eps(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.freq = nn.Parameter(torch.exp(torch.linspace(0, 5, 32)), requires_grad=False)
        self.body = nn.Sequential(nn.Linear(2 + 64, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 2))

    def forward(self, x, t):
        a = t[:, None] / conf["T"] * self.freq
        return self.body(torch.cat([x, a.sin(), a.cos()], 1))


net = Eps(conf["width"])
opt = torch.optim.SGD(net.parameters(), lr=conf["lr"], momentum=0.9)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=conf["gamma"])

step = 0
while True:
    x0 = swiss_roll(conf["bs"])
    t = torch.randint(0, conf["T"], (conf["bs"],))
    noise = torch.randn_like(x0)
    xt = abar[t, None].sqrt() * x0 + (1 - abar[t, None]).sqrt() * noise
    loss = (net(xt, t) - noise).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    step += 1
    if step % conf["log"] == 0:
        print(f"step {step:>7d} | loss {loss.item():.4f} | lr {opt.param_groups[0]['lr']:.2e}", flush=True)
