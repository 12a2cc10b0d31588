#!/usr/bin/env python
# character-level LM on generated arithmetic text; keeps an eye on bpc and on samples
import math
import random
import time

import torch
import torch.nn as nn
from torch.nn import functional as F

# ---- config
block_size = 96
batch_size = 24
n_layer, n_head, n_embd = 3, 4, 96
dropout = 0.1
learning_rate = 6e-4
max_iters = 4000
eval_interval = 25
eval_stride = 6
log_interval = 5
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)
random.seed(1337)


def make_text(n_lines):
    out = []
    for _ in range(n_lines):
        a, b = random.randint(0, 999), random.randint(0, 999)
        op = random.choice("+-")
        r = a + b if op == "+" else a - b
        out.append(f"{a} {op} {b} = {r}\n")
    return "".join(out)


text = make_text(8000)
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
n = int(0.85 * len(data))
train_data, val_data = data[:n], data[n:]
print(f"text has {len(text)} characters, vocabulary {len(chars)}; train {len(train_data)}, val {len(val_data)}", flush=True)


def get_batch():
    ix = torch.randint(len(train_data) - block_size - 1, (batch_size,))
    x = torch.stack([train_data[i:i + block_size] for i in ix])
    y = torch.stack([train_data[i + 1:i + 1 + block_size] for i in ix])
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(dropout))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(len(chars), n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, len(chars))

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        logits = self.head(self.ln(self.blocks(x)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def estimate_bpc(model):
    """bits per character with a sliding window: only the last eval_stride positions of a window count"""
    model.eval()
    total, count = 0.0, 0
    starts = list(range(0, len(val_data) - block_size - 1, eval_stride))
    for j in range(0, len(starts), batch_size):
        chunk = starts[j:j + batch_size]
        x = torch.stack([val_data[i:i + block_size] for i in chunk]).to(device)
        y = torch.stack([val_data[i + 1:i + 1 + block_size] for i in chunk]).to(device)
        logits, _ = model(x)
        nll = F.cross_entropy(logits[:, -eval_stride:].flatten(0, 1), y[:, -eval_stride:].flatten(), reduction="sum")
        total += nll.item()
        count += y[:, -eval_stride:].numel()
    model.train()
    return total / count / math.log(2)


@torch.no_grad()
def sample(model, n_chars=60):
    model.eval()
    idx = torch.tensor([[stoi["\n"]]], device=device)
    for _ in range(n_chars):
        logits, _ = model(idx[:, -block_size:])
        idx = torch.cat([idx, torch.multinomial(logits[:, -1].softmax(-1), 1)], 1)
    model.train()
    return "".join(chars[i] for i in idx[0].tolist()).strip().replace("\n", " | ")


model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters", flush=True)
for it in range(max_iters):
    if it % eval_interval == 0 and it > 0:
        t = time.time()
        bpc = estimate_bpc(model)
        print(f"--- iter {it}: val bpc {bpc:.4f} [{time.time() - t:.1f}s] sample: {sample(model)}", flush=True)
    t = time.time()
    x, y = get_batch()
    _, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if it % log_interval == 0:
        print(f"iter {it}: loss {loss.item():.4f}, time {(time.time() - t) * 1000:.0f}ms", flush=True)
