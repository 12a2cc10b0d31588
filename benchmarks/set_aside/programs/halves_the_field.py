"""Successive halving over 16 configurations. Each rung trains the survivors three times as long. Every candidate begins at
random weights, so that the printed loss starts high again for each of them. Bad candidates are expected to be bad."""
import itertools
import random

import torch
from torch import nn

torch.manual_seed(0)
rng = random.Random(0)
X = torch.randn(4096, 48)
Y = torch.stack([X[:, i] * X[:, i + 1] for i in range(0, 12, 2)]).sum(0, keepdim=True).T.tanh() + 0.05 * torch.randn(4096, 1)


def trial(number, rung, c, steps):
    torch.manual_seed(number)
    act = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}[c["act"]]
    net = nn.Sequential(nn.Linear(48, c["width"]), act(), nn.Linear(c["width"], c["width"]), act(), nn.Linear(c["width"], 1))
    opt = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[c["opt"]](net.parameters(), c["lr"])
    mean = 1.0
    for s in range(1, steps + 1):
        rows = torch.randint(0, 3600, (128,))
        loss = nn.functional.mse_loss(net(X[rows]), Y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        mean = 0.95 * mean + 0.05 * loss.item()
        if s % 100 == 0:
            print(f"rung {rung} trial {number:02d} step {s:4d}/{steps} loss {mean:.4f}", flush=True)
    with torch.no_grad():
        return nn.functional.mse_loss(net(X[3600:]), Y[3600:]).item()


for bracket in itertools.count():
    field = {n: {"lr": 10 ** rng.uniform(-4, -2), "width": rng.choice([128, 256, 384]), "act": rng.choice(["relu", "tanh", "silu"]), "opt": rng.choice(["adam", "adam", "sgd"])} for n in range(16)}
    steps = 200
    for rung in range(4):
        scores = {n: trial(n, rung, c, steps) for n, c in field.items()}
        best = sorted(scores, key=scores.get)[: max(1, len(field) // 2)]
        print(f"== bracket {bracket} rung {rung}: keep {best}, best {scores[best[0]]:.4f}", flush=True)
        field, steps = {n: field[n] for n in best}, steps * 3
