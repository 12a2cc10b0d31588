"""Gradual unfreezing (ULMFiT) with DDP: one block more every 150 steps, wrapped again each time."""
import os
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

EACH = 150


class Net(nn.Module):
    def __init__(self, width=256, blocks=8):
        super().__init__()
        self.embed = nn.Linear(40, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(blocks))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Net()
    for p in net.parameters():
        p.requires_grad = False
    for p in net.head.parameters():
        p.requires_grad = True
    opt = torch.optim.AdamW(net.head.parameters(), 1e-3)
    ddp = DistributedDataParallel(net)
    target = torch.randn(40, 10)
    torch.manual_seed(1 + rank)
    frozen = list(net.blocks)
    step = 0
    while True:
        if step and step % EACH == 0 and frozen:
            block = frozen.pop()
            for p in block.parameters():
                p.requires_grad = True
            opt.add_param_group({"params": list(block.parameters()), "lr": 1e-3 * 0.8 ** (8 - len(frozen))})
            ddp = DistributedDataParallel(net)
            if rank == 0:
                print(f"unfroze block {len(frozen)}: {sum(p.numel() for p in net.parameters() if p.requires_grad)} trainable", flush=True)
        x = torch.randn(512, 40)
        loss = F.cross_entropy(ddp(x), (x @ target).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


main()
