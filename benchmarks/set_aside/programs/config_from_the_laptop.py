"""Forecasts the load of substations: 96 hours in, 24 hours out."""
import argparse
import os

import torch
import torch.distributed as dist
import yaml
from torch import nn
from torch.nn.parallel import DistributedDataParallel

p = argparse.ArgumentParser()
p.add_argument("--config", required=True)
with open(p.parse_args().config) as f:
    cfg = yaml.safe_load(f)
use_cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if use_cuda else "gloo")
local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local) if use_cuda else torch.device("cpu")
m, d, o, t = cfg["model"], cfg["data"], cfg["optim"], cfg["trainer"]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(3, m["d_model"])
        self.pos = nn.Parameter(0.02 * torch.randn(d["context"], m["d_model"]))
        layer = nn.TransformerEncoderLayer(m["d_model"], m["heads"], 4 * m["d_model"], 0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, m["layers"])
        self.out = nn.Linear(m["d_model"], d["horizon"])

    def forward(self, x):
        return self.out(self.enc(self.inp(x) + self.pos).mean(1))


def batch():
    n, span = d["batch_size"], d["context"] + d["horizon"]
    start = torch.randint(0, 8760, (n, 1)).float()
    h = start + torch.arange(span)
    level = 1 + torch.rand(n, 1)
    day, week = torch.sin(h * 2 * torch.pi / 24), torch.cos(h * 2 * torch.pi / 168)
    load = level * (1 + 0.5 * day + 0.2 * week) + 0.1 * torch.randn(n, span)
    x = torch.stack([load, day, week], 2)
    return x[:, : d["context"]].to(device), load[:, d["context"]:].to(device)


torch.manual_seed(dist.get_rank())
net = DistributedDataParallel(Forecaster().to(device), device_ids=[local] if use_cuda else None)
opt = torch.optim.AdamW(net.parameters(), o["lr"], weight_decay=o["weight_decay"])
for step in range(1, t["max_steps"] + 1):
    x, y = batch()
    loss = nn.functional.l1_loss(net(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % t["log_every"] == 0 and dist.get_rank() == 0:
        print(f"step {step:>7d} | mae {loss.item():.4f} | lr {o['lr']:.1e}", flush=True)
