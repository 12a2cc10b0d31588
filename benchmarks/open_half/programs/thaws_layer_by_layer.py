"""Gradual unfreezing with DDP: every stage wraps the model anew, with one layer more that learns.

torchrun --nproc_per_node 2 thaws_layer_by_layer.py
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STAGES = [("head", 120), ("layer3", 160), ("layer2", 200), ("layer1", 100_000)]


class Backbone(nn.Module):
    def __init__(self, d=384):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Linear(256, d), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.layer3 = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.head = nn.Linear(d, 16)

    def forward(self, x):
        return self.head(self.layer3(self.layer2(self.layer1(x))))


def pretrain(model, steps=60):
    """A stand-in for the published weights: the same on each rank."""
    g = torch.Generator().manual_seed(0)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    w = torch.randn(256, 16, generator=g)
    for _ in range(steps):
        x = torch.randn(128, 256, generator=g)
        loss = nn.functional.cross_entropy(model(x), (x @ w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
net = Backbone()
pretrain(net)
net.head.reset_parameters()
net.requires_grad_(False)
g = torch.Generator().manual_seed(1 + rank)
w = torch.randn(256, 16, generator=torch.Generator().manual_seed(5))
for number, (name, steps) in enumerate(STAGES):
    getattr(net, name).requires_grad_(True)
    dist.barrier()
    model = DDP(net)
    params = [p for p in net.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, 2e-3 / 2**number)
    if rank == 0:
        print(f"stage {number}: {name} thawed, {sum(p.numel() for p in params)} parameters learn", flush=True)
    t = time.time()
    for step in range(1, steps + 1):
        x = torch.randn(128, 256, generator=g)
        y = (x @ w + 0.4 * (x[:, :16] * x[:, 16:32])).argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"stage {number} step {step} loss {loss.item():.4f} {step / (time.time() - t):.1f} it/s", flush=True)
