#!/usr/bin/env python
"""Named entities with a small transformer. Large batches by accumulation; --accum micro-batches make one update."""
import argparse
from contextlib import nullcontext
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--accum", type=int, default=4)
ap.add_argument("--micro", type=int, default=12)
ap.add_argument("--epochs", type=int, default=300)
ap.add_argument("--wall", type=float, default=210)
args = ap.parse_args()

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self, vocab=900, d=80, tags=7):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(1, 40, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 160, dropout=0.1, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(d, tags)

    def forward(self, ids):
        return self.out(self.enc(self.emb(ids) + self.pos))


g = torch.Generator().manual_seed(5)
ids = torch.randint(0, 900, (3840, 40), generator=g)
tags = (ids // 60) % 7
tags[:, 1:] = torch.where(ids[:, :-1] > 800, torch.tensor(6), tags[:, 1:])
data = TensorDataset(ids, tags)
sampler = DistributedSampler(data)
loader = DataLoader(data, args.micro, sampler=sampler, drop_last=True)
model = DDP(Tagger())
opt = torch.optim.AdamW(model.parameters(), 1e-3)
began, update = time.time(), 0
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    opt.zero_grad()
    for i, (x, y) in enumerate(loader):
        last = i == len(loader) - 1
        with nullcontext() if last else model.no_sync():
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / args.accum
            loss.backward()
        if (i + 1) % args.accum == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            update += 1
            if rank == 0 and update % 5 == 0:
                print(f"{update:5d} updates  epoch {epoch}  loss {loss.item() * args.accum:.4f}  {time.time() - began:.0f} s", flush=True)
    over = torch.tensor([float(time.time() - began > args.wall)])
    dist.all_reduce(over)
    if over.item():
        break
dist.destroy_process_group()
