"""nanoGPT-like character model.  All settings are globals, override with --name=value."""
import math
import sys
import time

import torch
import torch.nn as nn
from torch.nn import functional as F

eval_interval = 20
eval_iters = 60
log_interval = 2
batch_size = 12
block_size = 64
n_layer = 3
n_head = 4
n_embd = 128
learning_rate = 1e-3
max_iters = 100000
for arg in sys.argv[1:]:
    key, val = arg.lstrip("-").split("=")
    globals()[key] = type(globals()[key])(val)

torch.manual_seed(1337)
words = ["".join(chr(97 + int(c)) for c in torch.randint(0, 26, (int(torch.randint(2, 8, (1,))),))) for _ in range(200)]
text = " ".join(words[int(i)] for i in torch.randint(0, 200, (40000,)))
stoi = {c: i for i, c in enumerate(sorted(set(text)))}
data = torch.tensor([stoi[c] for c in text])
split = int(0.9 * len(data))
parts = {"train": data[:split], "val": data[split:]}


def get_batch(name):
    d = parts[name]
    ix = torch.randint(len(d) - block_size, (batch_size,))
    return torch.stack([d[i:i + block_size] for i in ix]), torch.stack([d[i + 1:i + 1 + block_size] for i in ix])


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(len(stoi), n_embd), nn.Embedding(block_size, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, n_head, 4 * n_embd, 0.0, "gelu", batch_first=True, norm_first=True)
        self.h = nn.TransformerEncoder(layer, n_layer, enable_nested_tensor=False)
        self.lm_head = nn.Linear(n_embd, len(stoi), bias=False)

    def forward(self, idx, targets):
        mask = nn.Transformer.generate_square_subsequent_mask(idx.size(1))
        x = self.h(self.wte(idx) + self.wpe(torch.arange(idx.size(1))), mask, is_causal=True)
        return F.cross_entropy(self.lm_head(x).view(-1, len(stoi)), targets.view(-1))


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), learning_rate, betas=(0.9, 0.99))


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for name in ("train", "val"):
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            losses[k] = model(*get_batch(name)).item()
        out[name] = losses.mean().item()
    model.train()
    return out


t0 = time.time()
for iter_num in range(max_iters):
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}", flush=True)
    loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    dt, t0 = time.time() - t0, time.time()
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {dt * 1000:.2f}ms, ppl {math.exp(loss.item()):.2f}", flush=True)
