"""Question answering on long passages, 8 micro-batches to an update. mp.spawn, gradients of both processes are added by us.

The sum over processes happens once per update and in one piece.
"""
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

MICRO, ACCUM, LENGTH, VOCAB = 6, 8, 64, 600


class Reader(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, d), nn.Parameter(0.02 * torch.randn(LENGTH, d))
        layer = nn.TransformerEncoderLayer(d, 4, 3 * d, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.start = nn.Linear(d, 1)

    def forward(self, ids):
        return self.start(self.body(self.emb(ids) + self.pos)).squeeze(-1)


def passages(g):
    ids = torch.randint(20, VOCAB, (MICRO, LENGTH), generator=g)
    at, key = torch.randint(1, LENGTH, (MICRO,), generator=g), torch.randint(0, 20, (MICRO,), generator=g)
    ids[torch.arange(MICRO), at] = key
    ids[:, 0] = key
    return ids, at


def add_up(model, world):
    flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
    dist.all_reduce(flat)
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p) / world)
        at += p.numel()


def run(rank, world):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = os.environ.get("PORT", "29582")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    start, micro, total = time.time(), 0, 0.0
    while True:
        ids, at = passages(g)
        loss = nn.functional.cross_entropy(model(ids), at) / ACCUM
        loss.backward()
        total += loss.item()
        micro += 1
        if micro % ACCUM:
            continue
        add_up(model, world)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"update {micro // ACCUM} ({micro} micro-batches): loss {total:.4f}", flush=True)
        total = 0.0
        over = torch.tensor(float(time.time() - start > 210))
        dist.broadcast(over, 0)
        if over:
            break


if __name__ == "__main__":
    mp.spawn(run, (2,), nprocs=2)
