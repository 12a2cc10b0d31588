#!/usr/bin/env python
# coding: utf-8

# # Kitchen notes: adapt the small LM with low-rank adapters
# Exported from `recipe_notes_finetune.ipynb`

# In[1]:


import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
print("torch", torch.__version__, "on", device, flush=True)


# In[2]:


VOCAB, BLOCK = 256, 64


def grammar(seed, concentration):
    """A language: for each token a few likely successors."""
    rng = np.random.default_rng(seed)
    successors = rng.integers(0, VOCAB, (VOCAB, 6))
    weights = rng.dirichlet(np.full(6, concentration), VOCAB)
    return successors, weights.cumsum(1)


def write_corpus(language, n_sequences, seed):
    successors, cdf = language
    rng = np.random.default_rng(seed)
    out = np.empty((n_sequences, BLOCK), np.int64)
    tok = rng.integers(0, VOCAB, n_sequences)
    for t in range(BLOCK):
        out[:, t] = tok
        choice = (rng.random(n_sequences)[:, None] > cdf[tok]).sum(1).clip(max=5)
        tok = successors[tok, choice]
    return torch.from_numpy(out)


general = grammar(1, 1.0)
kitchen = (np.where(np.random.default_rng(5).random((VOCAB, 1)) < 0.45, grammar(2, 0.5)[0], general[0]), general[1])
base_corpus = write_corpus(general, 12000, 10)
note_corpus, note_valid = write_corpus(kitchen, 6000, 11), write_corpus(kitchen, 256, 12)
base_corpus.shape, note_corpus.shape


# In[3]:


config = GPT2Config(vocab_size=VOCAB, n_positions=BLOCK, n_embd=128, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                    bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).to(device)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters", flush=True)


# In[4]:


# base model: a short pretraining on the general corpus (the real one comes from the model store)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
PRETRAIN = 240
for step in range(1, PRETRAIN + 1):
    for g in opt.param_groups:
        g["lr"] = 2e-3 * min(1, step / 30) * (0.5 + 0.5 * math.cos(math.pi * step / PRETRAIN))
    ids = base_corpus[torch.randint(len(base_corpus), (32,))].to(device)
    loss = model(input_ids=ids, labels=ids).loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"base step {step} loss {loss.item():.4f}", flush=True)


# In[5]:


class Adapter(nn.Module):
    def __init__(self, layer, rank=16, alpha=32):
        super().__init__()
        self.layer = layer
        n_in, n_out = layer.weight.shape
        self.a = nn.Parameter(torch.randn(n_in, rank) / math.sqrt(n_in))
        self.b = nn.Parameter(torch.zeros(rank, n_out))
        self.scale = alpha / rank

    def forward(self, x):
        return self.layer(x) + (x @ self.a) @ self.b * self.scale


for p in model.parameters():
    p.requires_grad_(False)
for block in model.transformer.h:
    block.attn.c_attn = Adapter(block.attn.c_attn)
    block.attn.c_proj = Adapter(block.attn.c_proj)
    block.mlp.c_fc = Adapter(block.mlp.c_fc)
    block.mlp.c_proj = Adapter(block.mlp.c_proj)
model.to(device)
trainable = [p for p in model.parameters() if p.requires_grad]
print(f"{sum(p.numel() for p in trainable)} trainable of {sum(p.numel() for p in model.parameters())}", flush=True)


# In[6]:


@torch.no_grad()
def valid_loss():
    model.eval()
    total = np.mean([model(input_ids=b, labels=b).loss.item() for b in note_valid.to(device).split(64)])
    model.train()
    return float(total)


@torch.no_grad()
def write_note(length=24):
    model.eval()
    ids = torch.randint(VOCAB, (1, 1), device=device)
    for _ in range(length):
        p = F.softmax(model(input_ids=ids).logits[0, -1] / 0.8, -1)
        ids = torch.cat([ids, torch.multinomial(p, 1)[None]], 1)
    model.train()
    return " ".join(map(str, ids[0].tolist()))


# In[7]:


ACCUM, MICRO, STEPS, WARMUP, PEAK = 4, 16, 1200, 60, 4e-3
opt = torch.optim.AdamW(trainable, lr=PEAK, weight_decay=0.0)
print(f"before fine-tuning: valid {valid_loss():.4f}", flush=True)
history, tic = [], time.time()
for step in range(1, STEPS + 1):
    lr = PEAK * (step / WARMUP) ** 2 if step < WARMUP else PEAK * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))))
    for g in opt.param_groups:
        g["lr"] = lr
    total = 0.0
    for _ in range(ACCUM):
        ids = note_corpus[torch.randint(len(note_corpus), (MICRO,))].to(device)
        loss = model(input_ids=ids, labels=ids).loss / ACCUM
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(trainable, 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    history.append(total)
    if step % 5 == 0:
        print(f"step {step} loss {total:.4f} lr {lr:.2e} {time.time() - tic:.0f}s", flush=True)
    if step % 100 == 0:
        print(f"step {step} valid {valid_loss():.4f}", flush=True)
        print("sample:", write_note(), flush=True)


# In[8]:


print("mean of the last 50:", np.mean(history[-50:]))
