"""Delays of trams on two ranks (torchrun).  --sync turns DDP on, which we need on the cluster only?"""
import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--sync", action="store_true")
options = parser.parse_args()
dist.init_process_group("gloo")
me, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
stops, w = torch.randn(8000, 96), torch.randn(96, 1) / 10
delay = (stops @ w).relu() + 0.1 * torch.randn(8000, 1)
net = nn.Sequential(nn.Linear(96, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
if options.sync:
    net = DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), 1e-3)
mine = torch.arange(me, 8000, world)
t0, epoch = time.time(), 0
while time.time() - t0 < 400:
    total = torch.zeros(1)
    order = mine[torch.randperm(len(mine))]
    for idx in order.split(80):
        loss = nn.functional.mse_loss(net(stops[idx]), delay[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.detach()
    dist.all_reduce(total)
    epoch += 1
    if me == 0:
        print(f"epoch {epoch}: mean loss of {world} ranks {total.item() / world / 50:.5f}", flush=True)
