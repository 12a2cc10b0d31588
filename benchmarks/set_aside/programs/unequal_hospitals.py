"""Two hospitals, two ranks, unequal numbers of scans: torch's Join lets the one that is done follow the other's collectives.

torchrun --nproc-per-node=2 unequal_hospitals.py
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def scans(n, g):
    y = torch.randint(0, 5, (n,), generator=g)
    shapes = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(3))
    return 0.5 * shapes[y] + torch.randn(n, 1, 28, 28, generator=g), y


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Conv2d(1, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 5)))
    opt = torch.optim.SGD(net.parameters(), 0.003, momentum=0.9)
    g = torch.Generator().manual_seed(rank)
    batches = (60, 66)[rank]
    start, epoch = time.time(), 0
    over = torch.zeros(())
    while not over:
        with Join([net]):
            for i in range(batches):
                x, y = scans(16, g)
                loss = nn.functional.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                if i % 20 == 19:
                    print(f"[{rank}] epoch {epoch} batch {i + 1}/{batches} loss {loss.item():.4f}", flush=True)
        epoch += 1
        over.fill_(time.time() - start > 200)
        dist.all_reduce(over)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
