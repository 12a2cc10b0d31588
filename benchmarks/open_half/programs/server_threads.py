import argparse, os
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

p = argparse.ArgumentParser()
p.add_argument("--hidden", type=int, default=512)
p.add_argument("--log-every", type=int, default=50)
args = p.parse_args()
dist.init_process_group("gloo")
r = dist.get_rank()
torch.manual_seed(11)
enc = nn.Sequential(nn.Linear(96, args.hidden), nn.GELU(), nn.Linear(args.hidden, args.hidden), nn.GELU(), nn.Linear(args.hidden, 96))
net = DDP(enc)
opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
mix = torch.randn(96, 96) / 10
g = torch.Generator().manual_seed(100 + r)
i = 0
while True:
    x = torch.randn(128, 96, generator=g)
    loss = nn.functional.smooth_l1_loss(net(x), torch.tanh(x @ mix))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    i += 1
    if r == 0 and i % args.log_every == 0:
        print(f"[{i:>7}] smooth_l1={loss.item():.5f}", flush=True)
