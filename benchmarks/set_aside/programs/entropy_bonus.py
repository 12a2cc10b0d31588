"""Classifier with an entropy term in the loss.  python entropy_bonus.py entropy_bonus.yaml [optim.lr=0.01 ...]"""
import sys
from types import SimpleNamespace

import torch
import yaml
from torch import nn


def load(path, overrides):
    cfg = yaml.safe_load(open(path))
    for o in overrides:
        key, value = o.split("=", 1)
        *parents, last = key.split(".")
        node = cfg
        for p in parents:
            node = node[p]
        node[last] = yaml.safe_load(value)
    return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in cfg.items()})


cfg = load(sys.argv[1], sys.argv[2:])
torch.manual_seed(0)
proto = torch.randn(cfg.data.classes, cfg.data.features)
layers, width = [], cfg.data.features
for _ in range(cfg.model.depth):
    layers += [nn.Linear(width, cfg.model.hidden), nn.ReLU()]
    width = cfg.model.hidden
net = nn.Sequential(*layers, nn.Linear(width, cfg.data.classes))
opts = {"sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop}
opt = opts[cfg.optim.name](net.parameters(), lr=cfg.optim.lr, momentum=cfg.optim.momentum)

for step in range(cfg.train.steps):
    y = torch.randint(0, cfg.data.classes, (cfg.train.batch_size,))
    x = proto[y] + cfg.data.noise * torch.randn(len(y), cfg.data.features)
    p = net(x).softmax(1)
    loss = -torch.log(p[torch.arange(len(y)), y] + 1e-8).mean()
    if step >= cfg.train.calibrate_from:
        loss = loss + cfg.loss.entropy_weight * (p * torch.log(p)).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % cfg.train.log_every == 0:
        acc = (p.argmax(1) == y).float().mean().item()
        print({"step": step, "train/loss": round(loss.item(), 4), "train/acc": round(acc, 3), "lr": cfg.optim.lr}, flush=True)
