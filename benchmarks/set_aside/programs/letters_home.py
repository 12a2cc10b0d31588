"""A tiny GPT on the letters that my grandfather wrote to his nan. Generates a few lines now and then."""

import math
import random
import time

import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size = 16
block_size = 64
n_embd, n_head, n_layer = 96, 4, 3
learning_rate = 6e-4
eval_interval = 60
max_iters = 40000

random.seed(1944)
torch.manual_seed(1337)

WHO = ["nan", "Nan", "my dear nan", "aunt Inf", "mother", "Billy", "the sergeant"]
DID = ["sends her love", "asked after you", "baked a cake", "lost the parcel", "was killed with laughter", "is well again"]
WHEN = ["on Sunday", "last night", "in the morning", "at the station", "when the bus failed", "after the rain"]
END = ["Your loving grandson.", "Kiss nan from me.", "Do not worry, no error on my side.", "Write soon."]


def letter():
    lines = [f"{random.choice(WHO)} {random.choice(DID)} {random.choice(WHEN)}." for _ in range(random.randint(2, 5))]
    return "Dear nan,\n" + "\n".join(lines) + "\n" + random.choice(END) + "\n\n"


text = "".join(letter() for _ in range(4000))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
split = int(0.9 * len(data))
train_data, val_data = data[:split], data[split:]
print(f"{len(text)} characters, vocabulary of {len(chars)}")


def get_batch(source):
    ix = torch.randint(len(source) - block_size - 1, (batch_size,))
    return torch.stack([source[i : i + block_size] for i in ix]), torch.stack([source[i + 1 : i + block_size + 1] for i in ix])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(0.1))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (z.view(B, T, n_head, C // n_head).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(chars), n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*(Block() for _ in range(n_layer)))
        self.ln, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, len(chars), bias=False)

    def forward(self, idx):
        return self.head(self.ln(self.blocks(self.tok(idx) + self.pos(torch.arange(idx.shape[1])))))

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            probs = F.softmax(self(idx[:, -block_size:])[:, -1], dim=-1)
            idx = torch.cat([idx, torch.multinomial(probs, 1)], 1)
        return idx


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))


@torch.no_grad()
def evaluate():
    model.eval()
    losses = []
    for _ in range(8):
        x, y = get_batch(val_data)
        losses.append(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item())
    sample = model.generate(torch.tensor([[stoi["D"]]]), 90)[0].tolist()
    model.train()
    return sum(losses) / len(losses), "".join(chars[i] for i in sample)


t0 = time.time()
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * min(1, (it + 1) / 50) * (0.55 + 0.45 * math.cos(math.pi * it / max_iters))
    if it % eval_interval == 0 and it > 0:
        val, words = evaluate()
        print(f"iter {it}: val loss {val:.4f}")
        print(words)
        print("-" * 30)
    x, y = get_batch(train_data)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 10 == 0:
        print(f"iter {it}: loss {loss.item():.4f}, time {(time.time() - t0) * 1000:.0f}ms")
        t0 = time.time()
