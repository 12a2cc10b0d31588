"""A small transformer of the announcements at a railway station, from an endless stream.

Each rank simulates its own announcements: there is no data set to divide and no epoch, only steps.

torchrun --standalone --nproc_per_node=2 night_trains.py
"""
import math
import os
import random
import time
from itertools import islice

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

CITIES = ["Wien", "Graz", "Linz", "Brno", "Praha", "Bern", "Basel", "Koeln", "Mainz", "Trier", "Gent", "Lille", "Turin", "Udine"]
CHARS = sorted(set("".join(CITIES) + "abcdefghijklmnopqrstuvwxyz0123456789 .,:T"))
CODE = {c: i for i, c in enumerate(CHARS)}
CONTEXT, BATCH, STEPS, WARMUP, EVAL_EVERY = 96, 16, 4000, 100, 100


def announcement(rng):
    number = rng.randrange(40, 500)
    i = number % len(CITIES)
    start, end, via = CITIES[i], CITIES[(i * 5 + 3) % len(CITIES)], CITIES[(i * 3 + 1) % len(CITIES)]
    late = "" if rng.random() < 0.6 else f", {rng.choice([5, 10, 20, 40])} minutes late"
    return f"night train {number} from {start} to {end} via {via} on track {number % 9 + 1}{late}. "


class Stream(IterableDataset):
    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        rng = random.Random(self.seed)
        text = ""
        while True:
            while len(text) <= CONTEXT:
                text += announcement(rng)
            ids = torch.tensor([CODE[c] for c in text[: CONTEXT + 1]])
            text = text[CONTEXT:]
            yield ids[:-1], ids[1:]


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, d=128, layers=3, heads=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(CHARS), d), nn.Embedding(CONTEXT, d)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, len(CHARS), bias=False)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos.weight[: idx.shape[1]]
        logits = self.head(self.ln(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def lr_at(step, top=1e-3):
    if step < WARMUP:
        return top * (step + 1) / WARMUP
    return 0.1 * top + 0.45 * top * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(42)
    model = DDP(GPT().to(device), device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    stream = DataLoader(Stream(seed=100 + rank), batch_size=BATCH)
    held_out = list(islice(DataLoader(Stream(seed=7 + 1000 * (rank + 1)), batch_size=BATCH), 6))
    if rank == 0:
        print(f"{world} ranks, {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, {len(CHARS)} characters", flush=True)

    t0 = time.time()
    for step, (x, y) in enumerate(islice(stream, STEPS)):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)
        loss = model(x.to(device), y.to(device))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0 and rank == 0:
            rate = (step + 1) * BATCH * CONTEXT * world / (time.time() - t0)
            print(f"step {step:5d} | loss {loss.item():.4f} | norm {norm.item():.3f} | lr {lr_at(step):.2e} | {rate:.0f} tok/s", flush=True)
        if step % EVAL_EVERY == EVAL_EVERY - 1:
            model.eval()
            with torch.no_grad():
                val = torch.stack([model(a.to(device), b.to(device)) for a, b in held_out]).mean()
            model.train()
            dist.all_reduce(val)
            if rank == 0:
                print(f"step {step:5d} | val loss {val.item() / world:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
