"""Deep and narrow net on two processes, gradients averaged as in the 'writing distributed applications' tutorial.

accelerate launch --multi_gpu --num_processes=2 --main_process_port=0 reduces_each_tensor.py
"""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Narrow(nn.Module):
    def __init__(self, depth=120, width=40):
        super().__init__()
        self.first = nn.Linear(20, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({"n": nn.LayerNorm(width), "l": nn.Linear(width, width)}) for _ in range(depth))
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for b in self.blocks:
            x = x + 0.1 * torch.relu(b["l"](b["n"](x)))
        return self.last(x)


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1234)
    model = Narrow()
    w = torch.randn(20)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    if rank == 0:
        print(len(list(model.parameters())), "tensors, pid", os.getpid(), flush=True)
    for step in range(1000000):
        x = torch.randn(64, 20, generator=g)
        y = torch.sin(x @ w)[:, None]
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        average_gradients(model)
        opt.step()
        if step % 5 == 0 and rank == 0:
            print("Rank", rank, "step", step, "loss", f"{loss.item():.4f}", flush=True)


if __name__ == "__main__":
    run()
