"""Depth completion. Validation on rank 0 only; the others wait at the barrier."""
import os, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="gloo")
RANK = int(os.environ["RANK"])
torch.manual_seed(0)
net = DistributedDataParallel(nn.Sequential(nn.Conv2d(2, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 1)))
opt = torch.optim.Adam(net.parameters(), 1e-3)
torch.manual_seed(RANK)


def batch(n):
    d = torch.rand(n, 1, 24, 24).cumsum(-1) / 12
    m = (torch.rand_like(d) < 0.2).float()
    return torch.cat([d * m, m], 1), d


epoch = 0
while True:
    epoch += 1
    net.train()
    for _ in range(30):
        x, d = batch(8)
        loss = (net(x) - d).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if RANK == 0:
        net.eval()
        with torch.no_grad():
            mae = sum((net.module(x) - d).abs().mean().item() for x, d in (batch(8) for _ in range(600))) / 600
        print(f"=> epoch {epoch}  train L1 {loss.item():.4f}  val MAE {mae:.4f}", flush=True)
    dist.barrier()
