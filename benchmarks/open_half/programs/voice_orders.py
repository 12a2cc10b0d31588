#!/usr/bin/env python
# Intents of voice orders (drive-in pilot). Launch: torchrun --nproc-per-node=2 voice_orders.py
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

INTENTS = 10
FEATS = 40
BATCH = 12


def read_manifest(n=1920, seed=0):
    """One line per utterance: (id, frames, intent). The manifest of the tool is sorted by duration."""
    g = torch.Generator().manual_seed(seed)
    frames = (60 + 420 * torch.rand(n, generator=g) ** 2).int().tolist()
    intents = torch.randint(0, INTENTS, (n,), generator=g).tolist()
    lines = [(i, f, c) for i, (f, c) in enumerate(zip(frames, intents))]
    lines.sort(key=lambda line: line[1])
    return lines


PROTO = torch.randn(INTENTS, 20, FEATS, generator=torch.Generator().manual_seed(99))


def features(line):
    uid, frames, intent = line
    g = torch.Generator().manual_seed(uid)
    x = torch.randn(frames, FEATS, generator=g)
    for _ in range(1 + frames // 60):
        at = int(torch.randint(0, frames - 20, (1,), generator=g))
        x[at : at + 20] += 0.8 * PROTO[intent]
    return x


class Intents(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.conv = nn.Conv1d(FEATS, hidden, 5, 2, 2)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.att = nn.Linear(2 * hidden, 1)
        self.out = nn.Linear(2 * hidden, INTENTS)

    def forward(self, x, mask):
        h = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(h)
        a = self.att(h).squeeze(-1).masked_fill(~mask[:, ::2], -1e4).softmax(-1)
        return self.out((h * a[..., None]).sum(1))


def batches(lines, epoch):
    order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(epoch)).tolist()
    for k in range(0, len(order) - BATCH + 1, BATCH):
        chosen = [lines[j] for j in order[k : k + BATCH]]
        longest = max(line[1] for line in chosen)
        longest += longest % 2
        x = torch.zeros(BATCH, longest, FEATS)
        mask = torch.zeros(BATCH, longest, dtype=torch.bool)
        for b, line in enumerate(chosen):
            x[b, : line[1]] = features(line)
            mask[b, : line[1]] = True
        yield x, mask, torch.tensor([line[2] for line in chosen])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Intents())
    opt = torch.optim.Adam(model.parameters(), 5e-4)

    manifest = read_manifest()
    share = len(manifest) // world
    mine = manifest[rank * share : (rank + 1) * share]
    if rank == 0:
        print(f"{len(manifest)} utterances, {share} for each of {world} processes", flush=True)

    for epoch in range(200):
        began, total, n = time.time(), 0.0, 0
        for i, (x, mask, y) in enumerate(batches(mine, epoch)):
            loss = F.cross_entropy(model(x, mask), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total, n = total + loss.item(), n + 1
            if i % 10 == 0 and rank == 0:
                print(f"ep {epoch} it {i} loss {loss.item():.3f}", flush=True)
        if rank == 0:
            print(f"ep {epoch} mean {total / n:.4f} time {time.time() - began:.1f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
