"""Which dialect is spoken? Mean-pooled filterbanks, attention, DDP."""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=10)
ap.add_argument("--dialects", type=int, default=12)
args = ap.parse_args()
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
centres = torch.randn(args.dialects, 40, generator=torch.Generator().manual_seed(0))
net = DistributedDataParallel(nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, args.dialects)))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
for epoch in range(args.epochs):
    for step in range(200):
        y = torch.randint(0, args.dialects, (64,))
        x = (centres[y].unsqueeze(1) + 3 * torch.randn(64, 80, 40)).mean(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if rank == 0:
        print(f"epoch {epoch} loss {loss.item():.4f} on {os.environ['WORLD_SIZE']} cards", flush=True)
dist.destroy_process_group()
