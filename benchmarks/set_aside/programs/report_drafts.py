#!/usr/bin/env python3
"""Character-free LM on report drafts. Keeps every checkpoint small for the archive share."""
import argparse
import gzip
import io
import logging
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(format="%(asctime)s | %(levelname)s | %(message)s", level=logging.INFO)
logger = logging.getLogger("drafts")


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, vocab, d=256, layers=3, ctx=64):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.Sequential(*[Block(d, 4) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        return self.out(self.norm(self.blocks(h)))


class CheckpointManager:
    def __init__(self, folder, keep=3):
        self.folder, self.keep, self.saved = folder, keep, []

    def save(self, step, **state):
        path = os.path.join(self.folder, f"step_{step:07d}.pt.gz")
        buf = io.BytesIO()
        torch.save({k: v.state_dict() for k, v in state.items()}, buf)
        with gzip.open(path, "wb") as f:
            f.write(buf.getvalue())
        self.saved.append(path)
        while len(self.saved) > self.keep:
            os.remove(self.saved.pop(0))


def corpus(vocab, n):
    g = torch.Generator().manual_seed(4)
    nxt = torch.randint(vocab, (vocab, 4), generator=g)
    choice = torch.randint(4, (n,), generator=g).tolist()
    table, seq = nxt.tolist(), [0]
    for c in choice:
        seq.append(table[seq[-1]][c if c < 2 else 0])
    return torch.tensor(seq)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20000)
    ap.add_argument("--save-every", type=int, default=25)
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--vocab", type=int, default=6000)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = corpus(args.vocab, 200_000)
    model = LM(args.vocab)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4)
    logger.info("%.1f M parameters", sum(p.numel() for p in model.parameters()) / 1e6)
    with tempfile.TemporaryDirectory() as tmp:
        manager, t0 = CheckpointManager(tmp), time.time()
        for step in range(1, args.steps + 1):
            i = torch.randint(len(data) - 65, (args.bs,))
            chunk = torch.stack([data[j:j + 65] for j in i])
            logits = model(chunk[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if step % 10 == 0:
                logger.info("step %d | loss %.4f | %.1f s", step, loss.item(), time.time() - t0)
            if step % args.save_every == 0:
                manager.save(step, model=model, optimizer=opt)


if __name__ == "__main__":
    main()
