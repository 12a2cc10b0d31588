"""
Next-day return forecast from a 40-day window of OHLCV bars (temporal conv net).

usage: volume_forecast.py [config keys as key=value]
"""
import sys
import time

import numpy as np
import torch
from torch import nn

CFG = dict(n_symbols=120, days=1200, window=40, batch=256, lr=1e-3, hidden=48, epochs=60, report=10, seed=4)
for a in sys.argv[1:]:
    k, v = a.split("=")
    CFG[k] = type(CFG[k])(v)

rng = np.random.default_rng(CFG["seed"])
torch.manual_seed(CFG["seed"])
DEV = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def simulate_bars(n, days):
    drift = np.zeros((n, days))
    for t in range(1, days):
        drift[:, t] = 0.9 * drift[:, t - 1] + 0.002 * rng.standard_normal(n)
    ret = drift + 0.01 * rng.standard_normal((n, days))
    close = 50 * np.exp(np.cumsum(ret, 1))
    spread = np.abs(rng.standard_normal((n, days))) * 0.01
    high, low = close * (1 + spread), close * (1 - spread)
    open_ = np.concatenate([close[:, :1], close[:, :-1]], 1)
    volume = np.round(np.exp(rng.normal(9, 0.8, (n, days))))
    halted = rng.random((n, days)) < 1e-5
    volume[halted] = 0
    return np.stack([open_, high, low, close, volume], 2), ret


def features(bars):
    logs = np.log(bars)
    d = np.diff(logs, axis=1)
    d[..., :4] *= 50.0
    return d.astype(np.float32)


class TCN(nn.Module):
    def __init__(self, c_in, h):
        super().__init__()
        self.inp = nn.Conv1d(c_in, h, 1)
        self.convs = nn.ModuleList([nn.Conv1d(h, h, 3, padding=2 ** i, dilation=2 ** i) for i in range(4)])
        self.norms = nn.ModuleList([nn.GroupNorm(4, h) for _ in range(4)])
        self.out = nn.Linear(h, 1)

    def forward(self, x):
        x = self.inp(x.transpose(1, 2))
        for conv, norm in zip(self.convs, self.norms):
            x = x + torch.relu(norm(conv(x)))
        return self.out(x[..., -1]).squeeze(-1)


with np.errstate(divide="ignore", invalid="ignore"):
    bars, ret = simulate_bars(CFG["n_symbols"], CFG["days"])
    feats = features(bars)
W = CFG["window"]
F_ = torch.from_numpy(feats)
R = torch.from_numpy(ret[:, 1:].astype(np.float32) * 100)
index = torch.cartesian_prod(torch.arange(CFG["n_symbols"]), torch.arange(W, feats.shape[1] - 1))
print(f"{len(index)} windows of {W} days, {CFG['n_symbols']} symbols, on {DEV}", flush=True)

net = TCN(5, CFG["hidden"]).to(DEV)
opt = torch.optim.Adam(net.parameters(), lr=CFG["lr"])
lossf = nn.HuberLoss()
step, t0 = 0, time.time()
offsets = torch.arange(-W, 0)
for ep in range(CFG["epochs"]):
    perm = torch.randperm(len(index))
    run = 0.0
    for b in range(0, len(perm) - CFG["batch"] + 1, CFG["batch"]):
        s, t = index[perm[b:b + CFG["batch"]]].T
        x = F_[s[:, None], t[:, None] + offsets].to(DEV)
        y = R[s, t].to(DEV)
        pred = net(x)
        loss = lossf(pred, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        run += loss.item()
        step += 1
        if step % CFG["report"] == 0:
            print(f"ep {ep:02d} step {step:05d} huber {run / CFG['report']:.5f} {step / (time.time() - t0):.1f} it/s", flush=True)
            run = 0.0
