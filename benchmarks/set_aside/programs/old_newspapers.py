"""Character model of old newspapers, DDP. Rank 0 prepares the corpus once, the others wait for it."""
import json
import os
import random
import re
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

BLOCK, BATCH, DIM, LAYERS = 64, 12, 192, 3
SYL = ["ka", "lo", "mer", "tin", "sa", "bru", "fen", "or", "ste", "wil", "an", "pe", "rio", "gat", "hu", "de"]

# old spelling -> new spelling
OLD = [("th", "t"), ("ph", "f"), ("c(?=[ei])", "z"), (r"(\w)\1\1", r"\1\1"), ("-\\s*\n", ""), (r"\bmerti", "merdi"), ("aa", "a"),
       (r"(?<=[aeiou])gat\b", "gad"), (r"\bste(\w)", r"st\1"), (r"\s+", " "), ("ioo", "io"), (r"hu(?=hu)", "ho")]  # fmt: skip
RULES = [(re.compile(a), b) for a, b in OLD]


def compose(path, pages=80000):
    """Made-up pages, cleaned as the scanned ones are: hyphens joined, spaces squeezed, headlines lower case."""
    rng = random.Random(1871)
    words = ["".join(rng.choices(SYL, k=rng.randint(1, 3))) for _ in range(800)]
    weights = [1 / (i + 1) for i in range(800)]
    text = []
    for page in range(pages):
        line = " ".join(rng.choices(words, weights, k=120))
        for pattern, by in RULES:
            line = pattern.sub(by, line)
        text.append(line.strip() + ".\n")
        if page % 10000 == 9999:
            print(f"  {page + 1} pages", flush=True)
    text = "".join(text)
    chars = sorted(set(text))
    table = {c: i for i, c in enumerate(chars)}
    np.array([table[c] for c in text], dtype=np.uint8).tofile(path)
    with open(path + ".json", "w") as f:
        json.dump(chars, f)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 6, DIM // 6).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, DIM), nn.Embedding(BLOCK, DIM)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, vocab)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(h)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = [tempfile.mkdtemp(prefix="papers-") if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    path = os.path.join(folder[0], "corpus.bin")
    if rank == 0:
        print("preparing the corpus in", folder[0], flush=True)
        start = time.time()
        compose(path)
        print(f"corpus ready, {os.path.getsize(path) / 1e6:.1f} MB in {time.time() - start:.0f} s", flush=True)
    dist.barrier()
    with open(path + ".json") as f:
        vocab = len(json.load(f))
    corpus = np.memmap(path, dtype=np.uint8, mode="r")
    rng = np.random.default_rng(rank)
    torch.manual_seed(0)
    model = DDP(CharLM(vocab))
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4)
    for step in range(1, 50001):
        at = rng.integers(0, len(corpus) - BLOCK - 1, BATCH)
        rows = torch.from_numpy(np.stack([corpus[a : a + BLOCK + 1] for a in at]).astype(np.int64))
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 20 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f} bits {loss.item() / 0.6931:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
