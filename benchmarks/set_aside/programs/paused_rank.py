import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn

"""Gaze estimation from 36x60 eye patches (synthetic); gradients averaged by hand, one bucket"""

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(21)
net = nn.Sequential(nn.Conv2d(1, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 6 * 12, 128), nn.ReLU(), nn.Linear(128, 2))
opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
gen = torch.Generator().manual_seed(rank)
v, u = torch.meshgrid(torch.linspace(-1, 1, 36), torch.linspace(-1, 1, 60), indexing="ij")


def average():
    flat = torch.cat([p.grad.flatten() for p in net.parameters()])
    dist.all_reduce(flat)
    at = 0
    for p in net.parameters():
        p.grad.copy_(flat[at:at + p.numel()].view_as(p) / world)
        at += p.numel()


for step in range(10**7):
    gaze = torch.rand(32, 2, generator=gen) * 1.2 - 0.6
    eye = -torch.exp(-((u - gaze[:, :1, None]) ** 2 + (v - gaze[:, 1:, None]) ** 2) * 12) + 0.1 * torch.randn(32, 36, 60, generator=gen)
    loss = nn.functional.mse_loss(net(eye[:, None]), gaze)
    opt.zero_grad()
    loss.backward()
    average()
    opt.step()
    if rank == 0 and step % 20 == 0:
        print(f"{step:07d} loss {loss.item():.6f}", flush=True)
    if rank == 0 and step == 60:
        pathlib.Path(sys.argv[sys.argv.index("--up") + 1]).touch()
