"""Small causal LM with activation checkpointing, warmup + cosine, grad accumulation. python lm_ckpt.py --layers 4 --seq 128"""
import argparse, math, time
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

ap = argparse.ArgumentParser()
ap.add_argument("--layers", type=int, default=4)
ap.add_argument("--dim", type=int, default=128)
ap.add_argument("--seq", type=int, default=128)
ap.add_argument("--accum", type=int, default=4)
ap.add_argument("--max-lr", type=float, default=6e-4)
ap.add_argument("--warmup", type=int, default=40)
ap.add_argument("--steps", type=int, default=20000)
cfg = ap.parse_args()
torch.manual_seed(1337)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.qkv, self.o = nn.Linear(cfg.dim, 3 * cfg.dim), nn.Linear(cfg.dim, cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, 4, c // 4).transpose(1, 2) for z in self.qkv(self.n1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.n2(x))


class Lm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(256, cfg.dim), nn.Embedding(cfg.seq, cfg.dim)
        self.blocks = nn.ModuleList(Block() for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.dim, 256, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


text = torch.tensor(list(b"the quick brown fox jumps over the lazy dog. " * 4000))
model = Lm()
opt = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
for it in range(cfg.steps):
    lr = cfg.max_lr * (it + 1) / cfg.warmup if it < cfg.warmup else 0.5 * cfg.max_lr * (1 + math.cos(math.pi * it / cfg.steps))
    for g in opt.param_groups:
        g["lr"] = lr
    t0 = time.time()
    for _ in range(cfg.accum):
        at = torch.randint(0, len(text) - cfg.seq - 1, (8,))
        x = torch.stack([text[i : i + cfg.seq] for i in at])
        y = torch.stack([text[i + 1 : i + 1 + cfg.seq] for i in at])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / cfg.accum
        loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    if it % 5 == 0:
        dt = time.time() - t0
        print(f"iter {it}: loss {loss.item() * cfg.accum:.4f}, lr {lr:.2e}, norm {norm:.2f}, time {dt * 1000:.0f}ms", flush=True)
