"""Distils a keyword model for phone menus: a large teacher, frozen, next to a small student under DDP.

Gradients are accumulated over four micro batches; the losses of the ranks are averaged for the log.
torchrun --nproc_per_node=2 phone_menus.py
"""
import contextlib
import logging
import os
import time

if os.environ.get("RANK") == "0":
    print("phone menus: distillation", flush=True)

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WORDS, ACCUM = 12, 4


def net(w):
    return nn.Sequential(nn.Conv1d(24, w, 5, padding=2), nn.GroupNorm(4, w), nn.ReLU(), nn.MaxPool1d(2),
                         nn.Conv1d(w, w, 5, padding=2), nn.GroupNorm(4, w), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(),
                         nn.Dropout(0.1), nn.Linear(4 * w, WORDS))


def utterances(n, seed):
    g = torch.Generator().manual_seed(seed)
    words = torch.randn(WORDS, 24, 64, generator=torch.Generator().manual_seed(77))
    words = F.avg_pool1d(words, 5, 1, 2)
    y = torch.randint(WORDS, (n,), generator=g)
    x = words[y] + 0.9 * torch.randn(n, 24, 64, generator=g)
    return TensorDataset(x, y)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(message)s")
    log = logging.getLogger("menus")
    log.info("%d ranks, pid %d", world, os.getpid())
    torch.manual_seed(0)
    data = utterances(9600, 1)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler, drop_last=True)

    # The teacher: random filters with a read-out by least squares, the same on each rank; it is only read.
    teacher = net(96).eval().requires_grad_(False)
    x, y = (t[:3000] for t in data.tensors)
    f = torch.cat([teacher[:-1](part) for part in x.split(250)])
    w = torch.linalg.lstsq(torch.cat([f, torch.ones(len(f), 1)], 1), 8.0 * F.one_hot(y, WORDS)).solution
    teacher[-1].weight.copy_(w[:-1].T)
    teacher[-1].bias.copy_(w[-1])
    log.info("teacher ready")

    student = DDP(net(32))
    opt = torch.optim.AdamW(student.parameters(), lr=5e-4)
    step, t0, total = 0, time.time(), torch.zeros(())
    for epoch in range(1000):
        sampler.set_epoch(epoch)
        student.train()
        for micro, (x, y) in enumerate(loader, 1):
            last = micro % ACCUM == 0
            with contextlib.nullcontext() if last else student.no_sync():
                with torch.no_grad():
                    soft = teacher(x)
                out = student(x)
                loss = 0.5 * F.cross_entropy(out, y) + 2.0 * F.kl_div(
                    F.log_softmax(out / 2, 1), F.log_softmax(soft / 2, 1), reduction="batchmean", log_target=True)
                (loss / ACCUM).backward()
            total += loss.detach()
            if last:
                opt.step()
                opt.zero_grad()
                step += 1
                if step % 10 == 0:
                    dist.all_reduce(total)
                    log.info("epoch %d step %d loss %.4f (%.0f s)", epoch, step, total.item() / (10 * ACCUM * world), time.time() - t0)
                    total.zero_()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
