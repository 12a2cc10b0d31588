"""Packs the corpus on the first process while the others wait, then trains on both. Standard with our cluster's cache.

torchrun --nproc_per_node 2 main_process_first.py
"""
import os
import random
import re
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CACHE = Path(tempfile.gettempdir()) / f"packed-{os.environ.get('TORCHELASTIC_RUN_ID', 'x')}-{os.getppid()}.pt"


@contextmanager
def main_process_first():
    if dist.get_rank() > 0:
        dist.barrier()
    yield
    if dist.get_rank() == 0:
        dist.barrier()


def pack(seconds=18):
    rng = random.Random(0)
    counts, rows, start, docs, said = Counter(), [], time.time(), 0, 0
    words = ["".join(rng.choice("etaoinshrdlu") for _ in range(rng.randint(2, 9))) for _ in range(900)]
    while time.time() - start < seconds:
        k, text = rng.randrange(900), []
        for _ in range(300):
            k = (3 * k + rng.randint(0, 7)) % 900
            text.append(words[k])
        text = " ".join(text)
        tokens = re.findall(r"[a-z]+", text)
        counts.update(tokens)
        if docs < 4000:  # as many as the small model needs
            rows.append(tokens)
        docs += 1
        if time.time() - start > said + 3:
            said += 3
            print(f"packing: {docs} documents, {len(counts)} word types", flush=True)
    vocab = {w: i for i, (w, _) in enumerate(counts.most_common())}
    torch.save(torch.tensor([vocab[w] for row in rows for w in row]), CACHE)
    print(f"packed {docs} documents", flush=True)


class LM(nn.Module):
    def __init__(self, v=1000, d=128):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(v, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, v)

    def forward(self, x):
        return self.o(self.r(self.e(x))[0])


def main():
    dist.init_process_group(os.environ.get("BACKEND", "gloo"), timeout=timedelta(hours=2))
    rank = dist.get_rank()
    print(f"rank {rank} is up", flush=True)
    with main_process_first():
        if rank == 0:
            pack()
        data = torch.load(CACHE)
    dist.barrier()
    if rank == 0:
        CACHE.unlink()
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 10**6):
        at = torch.randint(0, len(data) - 33, (16,), generator=g)
        rows = torch.stack([data[k : k + 33] for k in at])
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)


main()
