"""Grading of diabetic retinopathy, ordinal regression, two processes."""
import argparse
import datetime as dt
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--lr", type=float, default=1e-3)
ap.add_argument("--grades", type=int, default=5)
ap.add_argument("--timeout-min", type=int, default=10)
args = ap.parse_args()

print(f"[{os.getpid()}] {args.grades} grades, lr {args.lr}", flush=True)
dist.init_process_group("gloo", timeout=dt.timedelta(minutes=args.timeout_min))
rank = dist.get_rank()
print(f"rank {rank} ready", flush=True)
torch.manual_seed(0)
net = DDP(nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(768, args.grades - 1)))
opt = torch.optim.Adam(net.parameters(), args.lr)
gen = torch.Generator().manual_seed(rank)
start, step = time.time(), 0
while time.time() - start < 200:
    grade = torch.randint(0, args.grades, (24,), generator=gen)
    x = torch.randn(24, 3, 64, 64, generator=gen) * (0.5 + 0.2 * grade.view(-1, 1, 1, 1))
    target = (grade.unsqueeze(1) > torch.arange(args.grades - 1)).float()
    loss = nn.functional.binary_cross_entropy_with_logits(net(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if rank == 0 and step % 20 == 0:
        print(f"{step}\t{loss.item():.4f}", flush=True)
