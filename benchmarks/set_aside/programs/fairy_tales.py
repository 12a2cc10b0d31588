"""
A very small GPT on the tales of a little grammar. Everything is in this file; override from the command line:
$ python fairy_tales.py --n_layer=2 --max_iters=20000
"""
import math
import random
import sys
import time

import torch
import torch.nn as nn
from torch.nn import functional as F

# -----------------------------------------------------------------------------
batch_size = 16
block_size = 64
n_layer = 2
n_head = 4
n_embd = 64
dropout = 0.0
learning_rate = 2e-3
max_iters = 30000
warmup_iters = 100
eval_interval = 250
eval_iters = 20
log_interval = 10
device = "cuda" if torch.cuda.is_available() else "cpu"
for arg in sys.argv[1:]:
    key, val = arg.lstrip("-").split("=")
    globals()[key] = type(globals()[key])(val)
# -----------------------------------------------------------------------------
random.seed(1337)
torch.manual_seed(1337)
heroes = ["the king", "a miller", "the fox", "a witch", "the youngest son", "a raven", "the dwarf", "a princess"]
verbs = ["saw", "lost", "found", "asked", "loved", "feared", "followed", "cursed"]
things = ["a golden key", "the well", "an old ring", "three apples", "the forest", "a talking fish", "the tower", "a spindle"]
ends = [".", ", and wept.", ", and laughed.", " at night.", " once more."]
text = " ".join(f"{random.choice(heroes)} {random.choice(verbs)} {random.choice(things)}{random.choice(ends)}" for _ in range(20000))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
cut = int(0.9 * len(data))
splits = {"train": data[:cut], "val": data[cut:]}
print(f"{len(data)} characters, vocabulary of {len(chars)}")


def get_batch(split):
    d = splits[split]
    ix = torch.randint(len(d) - block_size - 1, (batch_size,))
    x = torch.stack([d[i : i + block_size] for i in ix])
    y = torch.stack([d[i + 1 : i + 1 + block_size] for i in ix])
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(dropout))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, n_head, c // n_head).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(n_embd, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(a)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(chars), n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, len(chars), bias=False)

    def forward(self, x, y=None):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        logits = self.head(self.ln(self.blocks(h)))
        loss = None if y is None else F.cross_entropy(logits.flatten(0, 1), y.flatten())
        return logits, loss


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return learning_rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * ratio)))


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {s: torch.tensor([model(*get_batch(s))[1].item() for _ in range(eval_iters)]).mean() for s in splits}
    model.train()
    return out


model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.99), weight_decay=0.1)
t0 = time.time()
for it in range(max_iters + 1):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    if it % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {it}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
    x, y = get_batch("train")
    _, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    t1 = time.time()
    dt, t0 = t1 - t0, t1
    if it % log_interval == 0:
        print(f"iter {it}: loss {loss.item():.4f}, time {dt * 1000:.2f}ms")
