"""Which of ten festivals is the lantern from?

    python lantern_festivals.py                              one card
    torchrun --nproc-per-node=2 lantern_festivals.py         two
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--accum", type=int, default=64, help="micro-batches per update")
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--epochs", type=int, default=2000)
args = parser.parse_args()


def lanterns(n=1600):
    g = torch.Generator().manual_seed(9)
    shapes = nn.functional.interpolate(torch.randn(10, 3, 4, 4, generator=g), size=(40, 40), mode="bicubic")
    y = torch.randint(0, 10, (n,), generator=g)
    return TensorDataset(shapes[y] + 0.5 * torch.randn(n, 3, 40, 40, generator=g), y)


def main():
    distributed = "RANK" in os.environ
    if distributed:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if distributed else 0
    torch.manual_seed(0)
    data = lanterns()
    sampler = DistributedSampler(data) if distributed else None
    loader = DataLoader(data, args.batch_size, sampler=sampler, shuffle=sampler is None)
    net = nn.Sequential(nn.Conv2d(3, 24, 5, 2), nn.ReLU(), nn.Conv2d(24, 48, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(48 * 49, 10))
    if distributed:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), args.lr)
    t0 = time.time()
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        total = right = 0.0
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader, 1):
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            (loss / args.accum).backward()
            if i % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
            right += (out.argmax(1) == y).float().mean().item()
        if rank == 0:
            print(f"epoch {epoch:3d}  loss {total / len(loader):.4f}  acc {right / len(loader):.3f}  {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    main()
