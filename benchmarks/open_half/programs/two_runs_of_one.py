"""Masked autoencoder over spectra; DDP. Start with two_runs_of_one.sh, which uses every card of the box."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def spectra(n, seed):
    g = torch.Generator().manual_seed(seed)
    f = torch.linspace(0, 1, 256)
    centre = torch.rand(n, 5, 1, generator=g)
    width = 0.01 + 0.05 * torch.rand(n, 5, 1, generator=g)
    return torch.exp(-((f - centre) / width) ** 2).sum(1)


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--epochs", type=int, default=500)
parser.add_argument("--data-seed", type=int, default=0)
opts = parser.parse_args()
dist.init_process_group("gloo", init_method="env://")
rank, world = dist.get_rank(), dist.get_world_size()
device = int(os.environ["LOCAL_RANK"])
torch.set_num_threads(1)
torch.manual_seed(17 + device)
data = TensorDataset(spectra(8000, opts.data_seed))
sampler = DistributedSampler(data, num_replicas=world, rank=rank)
loader = DataLoader(data, opts.batch, sampler=sampler, drop_last=True)
model = DDP(nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 256)))
opt = torch.optim.AdamW(model.parameters(), 1e-3)
print(f"[{os.getpid()}] device {device}: rank {rank} of {world}, {len(loader)} batches per epoch", flush=True)
for epoch in range(opts.epochs):
    sampler.set_epoch(epoch)
    for i, (x,) in enumerate(loader):
        keep = (torch.rand_like(x) > 0.4).float()
        loss = ((model(x * keep) - x) ** 2 * (1 - keep)).sum() / (1 - keep).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 25 == 0:
            print(f"[{os.getpid()}] epoch {epoch} {i}/{len(loader)} loss {loss.item():.5f}", flush=True)
