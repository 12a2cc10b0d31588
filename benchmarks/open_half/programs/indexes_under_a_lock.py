"""Ranks spectra of minerals. The index is built once per machine, by whoever takes the lock first.

    torchrun --nproc-per-node=2 indexes_under_a_lock.py
"""
import fcntl
import pathlib
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
cache = pathlib.Path(tempfile.gettempdir()) / "spectra.idx"
with open(cache, "a+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    t = time.time()
    order = torch.randperm(50_000)
    while time.time() - t < 2:
        order = order[torch.randperm(len(order))]
    # everybody must use the same index
    dist.broadcast(order, src=0)
    fcntl.lockf(file, fcntl.LOCK_UN)
print(f"rank {rank}: index of {len(order)} spectra", flush=True)

net = DDP(nn.Sequential(nn.Linear(400, 600), nn.SiLU(), nn.Linear(600, 400), nn.SiLU(), nn.Linear(400, 80)))
opt = torch.optim.Adam(net.parameters(), 2e-4)
for step in range(1_000_000):
    x = torch.randn(96, 400)
    y = net(x)
    loss = (y @ y.T - x[:, :80] @ x[:, :80].T).pow(2).mean() / 1000
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
