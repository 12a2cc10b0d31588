import argparse
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=300)
ap.add_argument("--hidden", type=int, default=384)
args = ap.parse_args()
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = DDP(nn.Sequential(nn.Linear(90, args.hidden), nn.SiLU(), nn.Linear(args.hidden, args.hidden), nn.SiLU(), nn.Linear(args.hidden, 1)))
opt = torch.optim.Adam(net.parameters(), 1e-3)
w = torch.randn(90, 3)
torch.manual_seed(rank + 1)
for epoch in range(args.epochs):
    for i in range(200):
        x = torch.randn(256, 90)
        y = torch.tanh(x @ w).prod(1, keepdim=True)
        loss = nn.functional.huber_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0 and rank == 0:
            print(f"epoch {epoch:3d} batch {i:3d} huber {loss.item():.4f}", flush=True)
