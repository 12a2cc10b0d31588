"""MLP-Mixer, data parallel without magic: every process has the model, and gradients are averaged after backward."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Mix(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.t1, self.t2 = nn.Linear(tokens, 2 * tokens), nn.Linear(2 * tokens, tokens)
        self.c1, self.c2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = self.n1(x).transpose(1, 2)
        x = x + self.t2(nn.functional.gelu(self.t1(h))).transpose(1, 2)
        return x + self.c2(nn.functional.gelu(self.c1(self.n2(x))))


class Mixer(nn.Module):
    def __init__(self, depth=10, tokens=16, dim=32, classes=10):
        super().__init__()
        self.stem = nn.Linear(48, dim)
        self.layers = nn.Sequential(*[Mix(tokens, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean(1))


def average_gradients(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad.data, op=dist.ReduceOp.SUM)
        p.grad.data /= world


def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def run(rank, world, port, seconds):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = Mixer()
    broadcast_parameters(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    proto = torch.randn(10, 16, 48, generator=torch.Generator().manual_seed(0))
    began = time.time()
    for step in range(10**6):
        y = torch.randint(0, 10, (16,))
        x = 0.35 * proto[y] + torch.randn(16, 16, 48)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        average_gradients(model, world)
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:5d} loss {loss.item():.4f} {(step + 1) / (time.time() - began):.2f} steps/s", flush=True)
        if step % 50 == 49:
            stop = torch.tensor([time.time() - began])
            dist.broadcast(stop, 0)
            if stop.item() > seconds:
                break


if __name__ == "__main__":
    mp.spawn(run, args=(2, os.environ.get("PORT", "29611"), float(sys.argv[1]) if len(sys.argv) > 1 else 210.0), nprocs=2)
