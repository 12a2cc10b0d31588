import argparse
import time

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser(description="mines and rocks, by sonar")
parser.add_argument("--local_rank", type=int, default=0)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(60, 256), nn.ReLU(), nn.Linear(256, 2)))
opt = torch.optim.SGD(net.parameters(), args.lr)
t0, step = time.time(), 0
while step < 20000:
    x = torch.randn(256, 60)
    loss = nn.functional.cross_entropy(net(x), (x[:, :9].sum(1) > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if args.local_rank == 0 and step % 20 == 0:
        print(f"{step} {loss.item():.4f} {time.time() - t0:.1f}s", flush=True)
