"""Recipes and their pictures in one space (InfoNCE). Every 150 steps: median rank over 1000 pairs, ten draws, as in the paper."""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--eval-every", type=int, default=150)
ap.add_argument("--draws", type=int, default=10)
ap.add_argument("--patience", type=int, default=4)
ap.add_argument("--max-seconds", type=float, default=200)
a = ap.parse_args()
torch.manual_seed(0)
A, B = torch.randn(40, 300) / 6, torch.randn(40, 500) / 6


def pairs(n):
    z = torch.randn(n, 40)
    return torch.tanh(z @ A) + 0.3 * torch.randn(n, 300), torch.tanh(z @ B) + 0.3 * torch.randn(n, 500)


def tower(d):
    return nn.Sequential(nn.Linear(d, 384), nn.GELU(), nn.Linear(384, 384), nn.GELU(), nn.Linear(384, 96))


text, image, scale = tower(300), tower(500), nn.Parameter(torch.tensor(2.3))
opt = torch.optim.AdamW([*text.parameters(), *image.parameters(), scale], 3e-4)
val = pairs(6000)


@torch.no_grad()
def median_rank():
    text.eval(), image.eval()
    t, i = F.normalize(text(val[0]), dim=1), F.normalize(image(val[1]), dim=1)
    found = []
    for _ in range(a.draws):
        pick = torch.randperm(len(t))[:1000]
        s = t[pick] @ i[pick].T
        found.append(1 + (s > s.diag()[:, None]).sum(1).float().median())
    text.train(), image.train()
    return torch.stack(found).mean().item()


t0, best, waited = time.time(), 1e9, 0
for step in range(1, 10**6):
    x, y = pairs(128)
    s = F.normalize(text(x), dim=1) @ F.normalize(image(y), dim=1).T * scale.exp()
    loss = (F.cross_entropy(s, torch.arange(128)) + F.cross_entropy(s.T, torch.arange(128))) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step % a.eval_every == 0:
        m = median_rank()
        waited = 0 if m < best else waited + 1
        best = min(best, m)
        print(f"step {step} MedR {m:.2f} best {best:.2f} ({time.time() - t0:.0f} s)", flush=True)
        if waited >= a.patience:
            for group in opt.param_groups:
                group["lr"] *= 0.5
            waited = 0
    if time.time() - t0 > a.max_seconds:
        break
