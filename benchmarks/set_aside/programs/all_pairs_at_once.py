"""Metric learning: a few hundred steps, then mean average precision over the gallery."""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


def batch(n, proto, g):
    y = torch.randint(0, len(proto), (n,), generator=g)
    return proto[y] + 2.0 * torch.randn(n, proto.size(1), generator=g), y


def triplet(z, y, margin=0.2):
    d = torch.cdist(z, z)
    same = y[:, None] == y[None]
    return F.relu((d * same).amax(1) - d.masked_fill(same, 9.0).amin(1) + margin).mean()


def mean_average_precision(z, y):
    d = (z[:, None, :] - z[None, :, :]).pow(2).sum(-1)
    rank = d.argsort(1)
    hit = (y[rank] == y[:, None]).float()
    return (hit.cumsum(1) / torch.arange(1, len(y) + 1) * hit).sum(1).div(hit.sum(1)).mean()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--gallery", type=int, default=60000)
    args = ap.parse_args()
    g = torch.Generator().manual_seed(0)
    proto = torch.randn(120, 256, generator=g)
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 64))
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    for step in range(args.steps):
        x, y = batch(480, proto, g)
        loss = triplet(F.normalize(net(x), dim=1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step:4d}  triplet {loss.item():.4f}", flush=True)
    print("extracting features of the gallery ...", flush=True)
    x, y = batch(args.gallery, proto, g)
    with torch.no_grad():
        z = torch.cat([F.normalize(net(part), dim=1) for part in x.split(2000)])
    t = time.time()
    print(f"mAP {mean_average_precision(z, y):.4f} ({time.time() - t:.1f} s)")
