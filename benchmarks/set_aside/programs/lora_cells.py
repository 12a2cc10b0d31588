#!/usr/bin/env python
# coding: utf-8

# # LoRA on a small encoder
# Converted with `jupyter nbconvert --to script`.

# In[1]:


import math
import torch
import torch.nn as nn
import torch.nn.functional as F

get_ipython = globals().get("get_ipython", lambda: None)
torch.manual_seed(77)


# In[2]:


class LoRA(nn.Module):
    def __init__(self, base, r=4, alpha=16):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(r, base.in_features) / math.sqrt(base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * self.scale


class Encoder(nn.Module):
    def __init__(self, vocab=300, d=96, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.q = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.kv = nn.ModuleList(nn.Linear(d, 2 * d) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def hidden(self, x):
        h = self.emb(x)
        for q, kv, ff in zip(self.q, self.kv, self.ff):
            k, v = kv(h).chunk(2, 2)
            h = h + F.scaled_dot_product_attention(q(h)[:, None], k[:, None], v[:, None])[:, 0]
            h = h + ff(h)
        return h


def sentences(n, length=24):
    x = torch.randint(0, 300, (n, length))
    return x, (x < 60).float().mean(1).mul(10).long().clamp(max=4)


# In[3]: pretrain for a moment (stands for from_pretrained)


model = Encoder()
opt = torch.optim.Adam(model.parameters(), 1e-3)
for i in range(40):
    x, _ = sentences(32)
    loss = F.cross_entropy(model.head(model.hidden(x)).flatten(0, 1), x.flatten())
    opt.zero_grad(); loss.backward(); opt.step()
print("pretrained:", round(loss.item(), 3), flush=True)


# In[4]: freeze, insert adapters, new head


model.requires_grad_(False)
model.q = nn.ModuleList(LoRA(m) for m in model.q)
model.kv = nn.ModuleList(LoRA(m) for m in model.kv)
head = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 5))
train = [p for p in [*model.parameters(), *head.parameters()] if p.requires_grad]
print(f"trainable params: {sum(p.numel() for p in train):,} || all params: {sum(p.numel() for p in model.parameters()):,}", flush=True)
opt = torch.optim.AdamW(train, 1e-3)


# In[5]: fine-tune


for epoch in range(1, 2000):
    running, hits = 0.0, 0
    for i in range(25):
        x, y = sentences(32)
        out = head(model.hidden(x).mean(1))
        loss = F.cross_entropy(out, y)
        opt.zero_grad(); loss.backward(); opt.step()
        running += loss.item() / 25
        hits += (out.argmax(1) == y).sum().item()
    print(f"epoch {epoch}  train loss {running:.4f}  acc {hits / 800:.3f}", flush=True)
