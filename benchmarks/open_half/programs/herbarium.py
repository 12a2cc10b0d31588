"""Herbarium sheets: head first, then the backbone from the top down. torchrun --nproc-per-node=2 herbarium.py"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Backbone(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.ReLU())
        self.stage1 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, 2, 1), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(2 * c, 2 * c, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * c, 2 * c, 3, 1, 1), nn.ReLU())

    def forward(self, x):
        return self.stage2(self.stage1(self.stem(x))).mean((2, 3))


class Model(nn.Module):
    def __init__(self, families=15):
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(64, families)
        for p in self.backbone.parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.head(self.backbone(x))


def sheets(n, g):
    y = torch.randint(0, 15, (n,), generator=g)
    t = torch.linspace(0, 3.14, 40)
    base = torch.sin(t[:, None] * (1 + y.view(-1, 1, 1) % 5) + t[None] * (1 + y.view(-1, 1, 1) // 5) * 2)
    return torch.stack([base, base.roll(3, 1), -base], 1) + 0.8 * torch.randn(n, 3, 40, 40, generator=g), y


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    net = model.module
    thaw = {40: net.backbone.stage2, 120: net.backbone.stage1, 200: net.backbone.stem}
    g = torch.Generator().manual_seed(1 + rank)
    start, step = time.time(), 0
    while True:
        if step in thaw:
            thaw[step].requires_grad_(True)
            if rank == 0:
                print(f"step {step}: training {sum(p.numel() for p in net.parameters() if p.requires_grad):,} parameters", flush=True)
        x, y = sheets(32, g)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 10 == 0:
            if rank == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            stop = torch.tensor([time.time() - start > 205], dtype=torch.int)
            dist.broadcast(stop, 0)
            if stop:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
