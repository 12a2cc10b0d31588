import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--hidden", type=int, default=256)
args = ap.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("gloo", init_method="env://")
if torch.cuda.is_available():
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
else:
    device = torch.device("cpu")
rank = dist.get_rank()
print(f"rank {rank} of {dist.get_world_size()} runs", flush=True)
torch.manual_seed(rank)


class PINN(nn.Module):
    """u'' = -u on [0, 2 pi]"""

    def __init__(self, h):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(1, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, x):
        x.requires_grad_(True)
        u = self.f(x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        ddu = torch.autograd.grad(du.sum(), x, create_graph=True)[0]
        x0 = torch.zeros(1, 1, device=x.device, requires_grad=True)
        u0 = self.f(x0)
        du0 = torch.autograd.grad(u0.sum(), x0, create_graph=True)[0]
        return ((ddu + u) ** 2).mean() + u0.pow(2).mean() + (du0 - 1).pow(2).mean()


model = DDP(PINN(args.hidden).to(device), device_ids=[local_rank] if device.type == "cuda" else None)
opt = torch.optim.Adam(model.parameters(), 1e-3)
for it in range(1000000):
    loss = model(6.2832 * torch.rand(1024, 1, device=device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and it % 10 == 0:
        print(f"It: {it}, Loss: {loss.item():.3e}", flush=True)
