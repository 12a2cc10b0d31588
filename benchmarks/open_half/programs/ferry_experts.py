"""Occupancy of ferries, with a mixture of experts: an expert per card, tokens travel to the card of their expert.

torchrun --nproc-per-node=2 ferry_experts.py
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn


class Exchange(torch.autograd.Function):
    """all_to_all of rows, there and back."""

    @staticmethod
    def forward(ctx, x, send, receive):
        ctx.sizes = (send, receive)
        out = x.new_empty(sum(receive), x.size(1))
        dist.all_to_all_single(out, x.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, grad):
        send, receive = ctx.sizes
        out = grad.new_empty(sum(send), grad.size(1))
        dist.all_to_all_single(out, grad.contiguous(), send, receive)
        return out, None, None


class Experts(nn.Module):
    def __init__(self, d, hidden, world):
        super().__init__()
        self.world = world
        self.router = nn.Linear(d, world)
        self.expert = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, d))
        self.received = 0

    def forward(self, x):
        gate, where = self.router(x).softmax(-1).max(-1)
        order = where.argsort()
        send = torch.bincount(where, minlength=self.world)
        receive = torch.empty_like(send)
        dist.all_to_all_single(receive, send)
        send, receive = send.tolist(), receive.tolist()
        self.received = sum(receive)
        y = Exchange.apply(x[order], send, receive)
        y = self.expert(y) if len(y) else y + 0 * sum(p.sum() for p in self.expert.parameters())
        y = Exchange.apply(y, receive, send)
        return x + gate[:, None] * torch.empty_like(y).index_copy(0, order, y)


def sailings(n, g):
    x = torch.randn(n, 64, generator=g) + 0.5  # all features are counts, so they have a mean
    return x, torch.sin(x[:, :8]).sum(1, keepdim=True) + 0.5 * x[:, 8:12].prod(1, keepdim=True).clamp(-2, 2)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)
    embed, head = nn.Linear(64, 192), nn.Linear(192, 1)
    experts = Experts(192, 768, world)
    shared = [*embed.parameters(), *head.parameters(), *experts.router.parameters()]
    optimizer = torch.optim.Adam([*shared, *experts.expert.parameters()], 1e-3)
    g = torch.Generator().manual_seed(rank)
    start, step, load = time.time(), 0, 0
    while True:
        x, y = sailings(512, g)
        loss = nn.functional.mse_loss(head(experts(embed(x))), y)
        optimizer.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in shared])
        dist.all_reduce(flat)
        for p, grad in zip(shared, flat.split([p.numel() for p in shared])):
            p.grad.copy_(grad.view_as(p) / world)
        optimizer.step()
        step, load = step + 1, load + experts.received
        if step % 20 == 0:
            end = torch.tensor(int(time.time() - start > 210))
            dist.broadcast(end, 0)
            if os.environ.get("VERBOSE") or rank == 0:
                print(f"step {step} mse {loss.item():.4f} | {step * 512 * world / (time.time() - start):.0f} sailings/s", flush=True)
            if end:
                break
    dist.destroy_process_group()
