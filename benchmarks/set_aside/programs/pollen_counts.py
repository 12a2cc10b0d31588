"""Pollen grains under the microscope, 12 kinds.     python pollen_counts.py     (starts its two processes by itself)"""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

KINDS, SIDE, EVERY = 12, 32, 80


def slides(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, KINDS, (n,), generator=g)
    grains = F.interpolate(2 * torch.randn(KINDS, 1, 4, 4, generator=torch.Generator().manual_seed(99)), size=(12, 12))
    x = 0.9 * torch.randn(n, 1, SIDE, SIDE, generator=g)
    for i, (a, b) in enumerate(torch.randint(0, SIDE - 12, (n, 2), generator=g).tolist()):
        x[i, :, a : a + 12, b : b + 12] += grains[y[i]]
    return x, y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool2d(2))
        self.out = nn.Linear(128, KINDS)

    def forward(self, x):
        return self.out(self.conv(x).flatten(1))


@torch.no_grad()
def evaluate(net, x, y, views=6):
    """Test-time augmentation: the mean of several shifted views."""
    net.eval()
    hits = 0
    for i in range(0, len(y), 32):
        p = sum(net(x[i : i + 32].roll(v - views // 2, -1)).softmax(1) for v in range(views))
        hits += (p.argmax(1) == y[i : i + 32]).sum().item()
    net.train()
    return hits / len(y)


def work(rank, world, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Net())
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    held_out = slides(1500, 12345) if rank == 0 else None
    start, step, over = time.time(), 0, torch.zeros(1)
    while not over:
        x, y = slides(32, 1000 * step + rank)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if rank == 0 and step % 10 == 0:
            print(f"step {step:4d}  train {loss.item():.3f}", flush=True)
        if step % EVERY == 0:
            if rank == 0:
                print(f"step {step:4d}  held-out accuracy {evaluate(net.module, *held_out):.3f}", flush=True)
                over.fill_(time.time() - start > 195)
            dist.broadcast(over, 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("", int(os.environ.get("RENDEZVOUS", 0))))
        port = s.getsockname()[1]
    mp.spawn(work, (2, port), nprocs=2)
