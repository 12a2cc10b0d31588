"""Character transformer for epic poems, DDP with gradient accumulation (torchrun)."""
import contextlib
import math
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import yaml
from torch.nn.parallel import DistributedDataParallel as DDP

CONFIG = yaml.safe_load(
    """
model: {dim: 96, heads: 4, depth: 3, context: 64}
train: {micro_batch: 12, accumulate: 8, steps: 1500, warmup: 20, peak_lr: 2.0e-3, clip: 1.0}
log: {every: 2}
"""
)


def poem(n_lines=1800):
    g = torch.Generator().manual_seed(2)
    syll = ["ar", "ma", "vi", "rum", "que", "ca", "no", "tro", "iae", "qui", "pri", "mus", "ab", "o", "ris", "la", "vin"]
    words = ["".join(syll[j] for j in torch.randint(len(syll), (int(k),), generator=g)) for k in torch.randint(1, 4, (160,), generator=g)]
    lines = []
    for _ in range(n_lines):
        w = (torch.rand(6, generator=g) ** 2 * len(words)).long()
        lines.append(" ".join(words[j] for j in w))
    return "\n".join(lines)


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Poet(nn.Module):
    def __init__(self, vocab, dim, heads, depth, context):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Parameter(torch.zeros(context, dim))
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, vocab))

    def forward(self, x):
        return self.out(self.layers(self.tok(x) + self.pos[: x.shape[1]]))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    text = poem()
    chars = sorted(set(text))
    data = torch.tensor([chars.index(c) for c in text])
    cut = int(0.95 * len(data))
    train, val = data[:cut], data[cut:]
    m, c = CONFIG["model"], CONFIG["train"]
    torch.manual_seed(0)
    model = DDP(Poet(len(chars), **m))
    opt = torch.optim.AdamW(model.parameters(), lr=c["peak_lr"], betas=(0.9, 0.95), weight_decay=0.1)
    gen = torch.Generator().manual_seed(1000 + rank)  # each rank draws its own windows

    def batch(source, n):
        i = torch.randint(len(source) - m["context"] - 1, (n, 1), generator=gen) + torch.arange(m["context"] + 1)
        w = source[i]
        return w[:, :-1], w[:, 1:]

    def lr_at(step):
        if step < c["warmup"]:
            return c["peak_lr"] * (step + 1) / c["warmup"]
        return c["peak_lr"] * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - c["warmup"]) / (c["steps"] - c["warmup"]))))

    if rank == 0:
        print(f"{len(chars)} characters, {len(train)} training, world size {world}, global batch {world * c['micro_batch'] * c['accumulate']}", flush=True)
    for step in range(c["steps"]):
        t0, mean = time.perf_counter(), torch.zeros(())
        for group in opt.param_groups:
            group["lr"] = lr_at(step)
        for micro in range(c["accumulate"]):
            x, y = batch(train, c["micro_batch"])
            last = micro == c["accumulate"] - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / c["accumulate"]
                loss.backward()
            mean += loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), c["clip"])
        opt.step()
        opt.zero_grad(set_to_none=True)
        dist.all_reduce(mean)
        if step % CONFIG["log"]["every"] == 0 and rank == 0:
            print(f"step {step:4d} | loss {mean.item() / world:.4f} | norm {norm:.2f} | lr {lr_at(step):.2e} | {time.perf_counter() - t0:.2f} s", flush=True)
        if step % 50 == 49:
            with torch.no_grad():
                x, y = batch(val, 24)
                v = F.cross_entropy(model.module(x).flatten(0, 1), y.flatten())
            dist.all_reduce(v)
            if rank == 0:
                print(f"step {step:4d} | validation {v.item() / world:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
