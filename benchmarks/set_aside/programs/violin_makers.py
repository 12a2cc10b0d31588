"""Who built the violin? Resonance spectra, 18 makers."""
import datetime
import os
import time

import torch
import torch.distributed as dist
from torch import nn

print(f"init: rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}")
dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=240))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
spectra = torch.rand(18, 400) ** 3
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(400, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 18)))
opt = torch.optim.RMSprop(net.parameters(), lr=1e-4)
torch.manual_seed(1 + rank)
t0, i = time.time(), 0
while time.time() - t0 < 200:
    y = torch.randint(0, 18, (64,))
    x = spectra[y] * (1 + 0.3 * torch.randn(64, 400)) + 0.2 * torch.randn(64, 400)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    i += 1
    if rank == 0 and i % 50 == 0:
        print(f"{i:6} {loss.item():.4f}")
