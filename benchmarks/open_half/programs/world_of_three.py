"""Neural ODE on pendulum swings"""
import argparse, datetime, os
import torch
import torch.distributed as dist
import torch.nn as nn

p = argparse.ArgumentParser(); p.add_argument("--hidden", type=int, default=128); a = p.parse_args()
print(f"{datetime.datetime.now():%H:%M:%S} rank {os.environ['RANK']} connecting to {os.environ['MASTER_ADDR']}", flush=True)
dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=30))
print(f"{datetime.datetime.now():%H:%M:%S} rank {dist.get_rank()} of {dist.get_world_size()} ready", flush=True)
torch.manual_seed(0)
f = nn.Sequential(nn.Linear(2, a.hidden), nn.Tanh(), nn.Linear(a.hidden, a.hidden), nn.Tanh(), nn.Linear(a.hidden, 2))
ddp = nn.parallel.DistributedDataParallel(f)
opt = torch.optim.Adam(ddp.parameters(), 1e-3)
for it in range(10**6):
    s = torch.randn(128, 2)
    z, loss = s, 0.0
    for _ in range(10):
        s = s + 0.1 * torch.stack([s[:, 1], -s[:, 0].sin()], 1)
        z = z + 0.1 * ddp(z)
        loss = loss + (z - s).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if it % 20 == 0 and dist.get_rank() == 0:
        print(it, loss.item(), flush=True)
