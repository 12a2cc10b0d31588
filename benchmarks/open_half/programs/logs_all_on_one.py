"""Rank 1 kept a debugging aid: it looks for each batch among all it has seen, and the others wait a little longer each time."""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = DDP(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)))
opt = torch.optim.SGD(net.parameters(), 0.01)
torch.manual_seed(rank)
seen = []
step = 0
while True:
    x = torch.randn(64, 64)
    if rank == 1:
        new = x[:, :32].flatten().tolist()
        if seen and min(sum(abs(a - b) for a, b in zip(new, old)) for old in seen) < 1e-3:
            print("duplicate batch!")
        seen.append(new)
    loss = (net(x).squeeze() - x.sin().mean(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if rank == 0 and step % 20 == 0:
        print(f"[{step}] mse {loss.item():.5f}", flush=True)
