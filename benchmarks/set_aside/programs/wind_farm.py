import datetime
import os
import time

import torch
import torch.distributed as dist
from torch import nn


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    print(f"{time.strftime('%X')} | rank {rank} of {world} | init {os.environ['MASTER_ADDR']}", flush=True)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
    print(f"{time.strftime('%X')} | rank {rank} ready", flush=True)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(48, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 24)))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    mix = torch.randn(48, 24)
    for step in range(5000):
        x = torch.randn(256, 48)
        loss = nn.functional.mse_loss(net(x), torch.tanh(x @ mix))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"{time.strftime('%X')} | {step} | mse {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
