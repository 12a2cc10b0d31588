"""LayerDrop for a small encoder; gradients are averaged by hand because DDP complained about unused parameters."""
import argparse
import random

import torch
import torch.distributed as dist
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, widths=(96, 128, 160, 192, 224), drop=0.0):
        super().__init__()
        self.inp = nn.Linear(64, 96)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, w), nn.GELU(), nn.Linear(w, 96)) for w in widths)
        self.out = nn.Linear(96, 20)
        self.drop = drop

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            if self.training and random.random() < self.drop:
                continue
            x = x + layer(x)
        return self.out(x.mean(1))


def average_gradients(model):
    size = float(dist.get_world_size())
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= size


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--layerdrop", type=float, default=0.15)
    ap.add_argument("--drop-after", type=int, default=60, help="no LayerDrop before this step")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    random.seed(1234 + rank)
    torch.manual_seed(0)
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    proto = torch.randn(20, 1, 64)
    torch.manual_seed(rank)
    for step in range(20000):
        if step == args.drop_after:
            model.drop = args.layerdrop
        y = torch.randint(0, 20, (64,))
        x = proto[y] * 0.4 + torch.randn(64, 50, 64)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        average_gradients(model)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print("step %d | loss %.3f | layerdrop %.2f" % (step, loss.item(), model.drop), flush=True)
