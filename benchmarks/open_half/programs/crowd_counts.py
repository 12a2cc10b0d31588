"""Counting people in pictures by density maps. Data parallel "by hand": torch.multiprocessing, one process per card."""
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

CFG = dict(width=64, batch=6, lr=1e-4, seconds=205)


def block(i, o):
    return [nn.Conv2d(i, o, 3, padding=1), nn.ReLU()]


class Counter(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.front = nn.Sequential(*block(1, w), nn.MaxPool2d(2), *block(w, 2 * w), nn.MaxPool2d(2), *block(2 * w, 4 * w))
        self.context = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * w, 8 * w), nn.ReLU(), nn.Linear(8 * w, 4 * w))
        self.back = nn.Sequential(*block(4 * w, w), nn.Conv2d(w, 1, 1))

    def forward(self, x):
        h = self.front(x)
        return self.back(h * torch.sigmoid(self.context(h))[..., None, None])


def crowd(n, g):
    people = (torch.rand(n, 1, 32, 32, generator=g) < 0.03).float()
    blur = nn.functional.avg_pool2d(nn.functional.pad(people, (1, 1, 1, 1)), 3, 1)
    return blur * 4 + 0.2 * torch.randn(n, 1, 32, 32, generator=g), nn.functional.avg_pool2d(people, 4) * 16


def average_gradients(model, world):
    grads = {name: p.grad for name, p in model.named_parameters()}
    everyone = [None] * world
    dist.all_gather_object(everyone, grads)
    for name, p in model.named_parameters():
        p.grad = sum(g[name] for g in everyone) / world


def worker(rank, world):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("PORT", "29560"))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = Counter(CFG["width"])
    opt = torch.optim.Adam(model.parameters(), CFG["lr"])
    g = torch.Generator().manual_seed(rank)
    start, it = time.time(), 0
    while True:
        x, y = crowd(CFG["batch"], g)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        average_gradients(model, world)
        opt.step()
        it += 1
        if rank == 0 and it % 5 == 0:
            print(f"it {it:5d}  density mse {loss.item():.4f}  {time.time() - start:.1f} s", flush=True)
        stop = torch.tensor([time.time() - start > CFG["seconds"]], dtype=torch.int)
        dist.broadcast(stop, 0)
        if stop:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
