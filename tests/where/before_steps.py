"""Ranks that hang before their first step, each in its own way: the first argument says how, the second names a folder."""

import os
import sys
import time

import torch
import torch.distributed as dist


def load(folder):
    while os.path.exists(os.path.join(folder, "loads")):
        time.sleep(0.05)  # LOAD


def main():
    way, folder = sys.argv[1:]
    rank = int(os.environ["RANK"])
    if way == "load" and rank == 1:
        load(folder)
    dist.init_process_group("gloo")  # INIT
    if way in ("branch", "wraps") and rank == 1:
        load(folder)
    if way == "wraps":
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))  # WRAPS
    dist.all_reduce(torch.zeros(1))  # FIRST
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    print("stepped", flush=True)
    load(folder)


main()
