"""Holes in fishing nets, from patches.  torchrun --nproc-per-node=2 fishing_nets.py"""
import argparse
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

p = argparse.ArgumentParser()
p.add_argument("--rank", type=int, default=0)
p.add_argument("--world-size", type=int, default=1)
p.add_argument("--gpu", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
p.add_argument("--store", default=None)
args = p.parse_args()

store = args.store or f"file://{tempfile.mkdtemp()}/store"
dist.init_process_group("gloo", init_method=store, rank=args.rank, world_size=args.world_size)
print(f"| distributed init (rank {args.rank} of {args.world_size}, gpu {args.gpu})", flush=True)
torch.manual_seed(13 + args.rank)
patches = torch.randn(2000, 1, 28, 28)
holes = (patches[:, 0, 10:18, 10:18].mean((1, 2)) > 0).long()
data = torch.utils.data.TensorDataset(patches, holes)
sampler = torch.utils.data.distributed.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, 50, sampler=sampler)
net = DDP(nn.Sequential(nn.Conv2d(1, 24, 5), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(864, 2)))
opt = torch.optim.SGD(net.parameters(), 0.003, momentum=0.9)
start, epoch = time.time(), 0
while time.time() - start < 400:
    sampler.set_epoch(epoch)
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0 and dist.get_rank() == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f}", flush=True)
    epoch += 1
