import argparse
import datetime
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import yaml

parser = argparse.ArgumentParser()
parser.add_argument("-c", "--config", required=True)
cfg = yaml.safe_load(open(parser.parse_args().config))
rank = int(os.environ["RANK"])
print(f"[rank {rank}] joining a group of {cfg['dist']['world_size']} at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", flush=True)
dist.init_process_group(cfg["dist"]["backend"], rank=rank, world_size=cfg["dist"]["world_size"], timeout=datetime.timedelta(minutes=cfg["dist"]["timeout_min"]))
print(f"[rank {rank}] group is up", flush=True)
dim = cfg["model"]["dim"]
net = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(cfg["model"]["layers"])], nn.Linear(dim, 1)))
opt = torch.optim.Adam(net.parameters(), cfg["lr"])
for step in range(10000):
    x = torch.randn(512, dim)
    loss = (net(x).squeeze(1) - x.sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
