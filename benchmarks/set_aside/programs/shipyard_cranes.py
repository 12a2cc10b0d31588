"""Says what a shipyard crane carries (nothing, plate, pipe, section) from a mast camera; DDP with large batches.

    torchrun --nproc-per-node=2 shipyard_cranes.py
"""
import argparse
import contextlib
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LOADS = ["nothing", "plate", "pipe", "section"]


def picture(load, rng, side=48):
    yy, xx = np.mgrid[:side, :side] / side
    image = 0.5 + 0.3 * yy + rng.normal(0, 0.26, (side, side))
    cx, cy = rng.uniform(0.3, 0.7), rng.uniform(0.4, 0.75)
    image[(np.abs(xx - cx) < 0.015) & (yy < cy)] -= 0.4
    if load == 1:
        image[(np.abs(xx - cx) < 0.2) & (np.abs(yy - cy) < 0.035)] -= 0.35
    elif load == 2:
        image[(np.hypot(xx - cx, yy - cy) < 0.1) & (np.hypot(xx - cx, yy - cy) > 0.05)] -= 0.35
    elif load == 3:
        image[(np.abs(xx - cx) < 0.11) & (np.abs(yy - cy) < 0.09)] -= 0.3
    return image.astype(np.float32)


def pictures(count, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(LOADS), count)
    x = np.stack([picture(k, rng) for k in y])
    return TensorDataset(torch.from_numpy(x)[:, None], torch.from_numpy(y))


class CraneNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        def block(a, b):
            return [nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1),
                    nn.GroupNorm(8, b), nn.ReLU(), nn.MaxPool2d(2)]
        self.net = nn.Sequential(*block(1, width), *block(width, 2 * width), *block(2 * width, 2 * width))
        self.head = nn.Linear(2 * width, len(LOADS))

    def forward(self, x):
        return self.head(self.net(x).amax((2, 3)))


@torch.no_grad()
def confusion(model, loader, device):
    """Rank 0 alone: the yard's report wants the table of one model on all pictures."""
    model.eval()
    table = torch.zeros(len(LOADS), len(LOADS), dtype=torch.long)
    for x, y in loader:
        guess = model(x.to(device)).argmax(1).cpu()
        table += torch.bincount(y * len(LOADS) + guess, minlength=len(LOADS) ** 2).view_as(table)
    model.train()
    return table


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pictures", type=int, default=2560)
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--micro-batch", type=int, default=16)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    train = pictures(args.pictures, 1)
    sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    loader = DataLoader(train, args.micro_batch, sampler=sampler, drop_last=True)
    check = DataLoader(pictures(960, 2), 64)
    model = DDP(CraneNet().to(device))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    updates = len(loader) // args.accumulate
    if rank == 0:
        print(f"{world} ranks, {len(loader)} micro-batches of {args.micro_batch} each, {updates} updates per epoch "
              f"(effective batch {args.micro_batch * args.accumulate * world})", flush=True)

    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        begin, mean, done = time.time(), torch.zeros(2), 0
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % args.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(x.to(device))
                loss = F.cross_entropy(logits, y.to(device))
                (loss / args.accumulate).backward()
            mean += torch.tensor([loss.item(), 1.0])
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
                done += 1
                if rank == 0 and done % 4 == 0:
                    print(f"epoch {epoch} update {done}/{updates} loss {mean[0] / mean[1]:.4f}", flush=True)
        dist.all_reduce(mean)
        if rank == 0:
            trained = time.time() - begin
            table = confusion(model.module, check, device)
            print(f"epoch {epoch}: loss {mean[0] / mean[1]:.4f}, trained {trained:.1f} s, evaluated {time.time() - begin - trained:.1f} s, "
                  f"accuracy {table.diag().sum() / table.sum():.3f}, table {table.tolist()}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
