"""Context-length warm-up for a small char transformer: 32, 48, 64 ... 256. Batch size stays (unlike DeepSpeed's)."""
import math, time
import torch, torch.nn as nn, torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(1337)
V, D = 48, 96


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.a, self.b = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        q, k, v = self.qkv(self.a(x)).chunk(3, -1)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.ff(self.b(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(512, D)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(D, V)

    def forward(self, idx):
        return self.head(self.blocks(self.tok(idx) + self.pos(torch.arange(idx.shape[1]))))


model = GPT()
opt = torch.optim.AdamW(model.parameters(), 3e-4)
corpus = (torch.cumsum(torch.randint(1, 4, (200000,)), 0)) % V
it, t0 = 0, time.time()
while True:
    block_size = min(256, 32 + 16 * (it // 100))
    ix = torch.randint(len(corpus) - block_size - 1, (8,))
    x = torch.stack([corpus[i : i + block_size] for i in ix])
    y = torch.stack([corpus[i + 1 : i + 1 + block_size] for i in ix])
    loss = F.cross_entropy(model(x).view(-1, V), y.view(-1))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if it % 10 == 0:
        t1 = time.time()
        print(f"iter {it}: loss {loss.item():.4f}, time {(t1 - t0) * 100:.2f}ms", flush=True)
        t0 = t1
    it += 1
