"""
Baby GPT on bedtime stories, character level. Run on both cards with
    torchrun --standalone --nproc_per_node=2 kids_stories.py
"""
import math
import os
import random
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

# -----------------------------------------------------------------------------
batch_size = 16
block_size = 64
n_layer, n_head, n_embd = 3, 4, 96
learning_rate = 1e-3
min_lr = 1e-4
warmup_iters = 40
max_iters = 6000
log_interval = 10
# -----------------------------------------------------------------------------

dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
local = int(os.environ["LOCAL_RANK"])
device = f"cuda:{local}" if torch.cuda.is_available() else "cpu"
if device != "cpu":
    torch.cuda.set_device(device)
torch.manual_seed(1337)
print(f"rank {rank}/{world} on {device}", flush=True)

r = random.Random(1)
who = ["Lily", "Tom", "the little fox", "a brave mouse", "grandma", "the old bear", "Anna", "a tiny dragon"]
did = ["found", "lost", "ate", "painted", "hid", "shared", "fixed", "dreamed of"]
what = ["a red ball", "the moon", "some honey", "a paper boat", "the big key", "a warm coat", "seven stars", "the last cookie"]
where = ["in the garden", "by the river", "under the bed", "at school", "in the snow", "on the hill"]
end = ["and laughed.", "and went to sleep.", "and was very happy.", "but it was only a dream.", "and told everyone."]
text = "\n".join(
    f"One day {r.choice(who)} {r.choice(did)} {r.choice(what)} {r.choice(where)} {r.choice(end)}" for _ in range(8000)
)
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
train_data, val_data = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]


def get_batch(split):
    d = train_data if split == "train" else val_data
    ix = torch.randint(len(d) - block_size - 1, (batch_size,))
    x = torch.stack([d[i : i + block_size] for i in ix])
    y = torch.stack([d[i + 1 : i + 1 + block_size] for i in ix])
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = [t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, dim=2)]
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(chars), n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, len(chars), bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        logits = self.head(self.ln_f(self.h(x)))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    return min_lr + 0.5 * (1 + math.cos(math.pi * it / max_iters)) * (learning_rate - min_lr)


model = DDP(GPT().to(device), device_ids=[local] if device != "cpu" else None)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
t0 = time.time()
for it in range(max_iters):
    for g in optimizer.param_groups:
        g["lr"] = get_lr(it)
    X, Y = get_batch("train")
    loss = model(X, Y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if it % log_interval == 0:
        dt, t0 = time.time() - t0, time.time()
        print(f"[rank {rank}] iter {it}: loss {loss.item():.4f}, time {dt / log_interval * 1000:.1f}ms", flush=True)
dist.destroy_process_group()
