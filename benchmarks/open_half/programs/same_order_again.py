#!/usr/bin/env python
# torchrun --standalone --nproc-per-node=2 same_order_again.py
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_data():
    g = torch.Generator().manual_seed(7)
    x = torch.randn(1600, 64, generator=g)
    w = torch.randn(64, 5, generator=g)
    return TensorDataset(x, (x @ w).argmax(1))


def train(rank, world):
    torch.manual_seed(11)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 5))
    ddp = DistributedDataParallel(net)
    sampler = DistributedSampler(get_data(), shuffle=True)
    loader = DataLoader(get_data(), batch_size=16, sampler=sampler)
    crit = torch.nn.CrossEntropyLoss()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.02, momentum=0.9)
    for ep in range(10_000):
        t, total = time.time(), 0.0
        for xb, yb in loader:
            out = ddp(xb)
            loss = crit(out, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if rank == 0:
            print("Epoch %d | loss %.4f | %.1fs" % (ep, total / len(loader), time.time() - t), flush=True)


def main():
    dist.init_process_group("gloo")
    train(int(os.environ["RANK"]), dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
