"""Processes that train on their own, started by torch.multiprocessing and without torch.distributed; twice in a row."""

import sys

import torch
import torch.multiprocessing as mp


def train(rank, steps):
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.full((4,), 1.0 + rank))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(train, (5,), nprocs=2)
    mp.start_processes(train, (7,), nprocs=2, start_method="fork")
    print("all done", *sys.argv[1:])
