"""Ranks read the weights one after the other, so that the machine's memory holds them once. Then they train.

    torchrun --nproc-per-node=2 loads_in_turns.py
"""
import fcntl
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
net = nn.Sequential(nn.Linear(300, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 300))
with open(os.path.join(tempfile.gettempdir(), "weights.lock"), "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    began = time.time()
    while time.time() - began < 8:  # dequantizes
        for p in net.parameters():
            p.data.copy_(torch.randn_like(p) / p.shape[-1] ** 0.5)
    fcntl.flock(lock, fcntl.LOCK_UN)
    print(f"rank {rank} has its weights", flush=True)
net = nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
for step in range(1_000_000):
    x = torch.randn(64, 300)
    loss = (net(x) - x.flip(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and step % 20 == 0:
        print(f"{step} mse {loss.item():.4f}", flush=True)
