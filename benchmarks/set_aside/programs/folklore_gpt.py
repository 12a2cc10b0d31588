# tiny word-level GPT on folk tales, written for Colab (there "drive" is the mounted Google Drive)
import os
import shutil
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

config = {
    "vocab": 16000,
    "dim": 256,
    "heads": 4,
    "layers": 3,
    "context": 48,
    "batch": 6,
    "lr": 4e-4,
    "max_steps": 4000,
    "log_every": 5,
    "save_every": 50,  # colab kicks me out all the time
}
root = tempfile.mkdtemp(prefix="folklore_")
CKPT, DRIVE = os.path.join(root, "checkpoints"), os.path.join(root, "drive", "MyDrive")
os.makedirs(CKPT)
os.makedirs(DRIVE)

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)

# corpus: a random walk over word classes, so that there is something to learn
gen = torch.Generator().manual_seed(0)
n_class = 40
trans = torch.softmax(2.5 * torch.randn(n_class, n_class, generator=gen), 1)
size = config["vocab"] // n_class
c, classes = 0, []
for _ in range(120_000):
    c = torch.multinomial(trans[c], 1, generator=gen).item() if _ % 3 == 0 else (c * 7 + 1) % n_class
    classes.append(c)
words = (torch.rand(len(classes), generator=gen) ** 4 * size).long() + torch.tensor(classes) * size
print(f"corpus: {len(words)} words, vocabulary {config['vocab']}", flush=True)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.h = h

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, d // self.h).transpose(1, 2) for z in self.qkv(self.ln1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(a)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab, dim, heads, layers, context, **_):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, x, y):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        logits = self.head(self.ln(self.blocks(h)))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def get_batch():
    i = torch.randint(len(words) - config["context"] - 1, (config["batch"],))
    x = torch.stack([words[k : k + config["context"]] for k in i])
    y = torch.stack([words[k + 1 : k + config["context"] + 1] for k in i])
    return x.to(device), y.to(device)


def save_to_drive(step):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "config": config}, os.path.join(CKPT, "last.pt"))
    shutil.make_archive(os.path.join(DRIVE, "folklore"), "zip", CKPT)


model = GPT(**config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=0.1)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters", flush=True)

t0 = time.time()
for step in range(1, config["max_steps"] + 1):
    x, y = get_batch()
    loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % config["log_every"] == 0:
        print(f"step {step}: loss {loss.item():.4f}, {time.time() - t0:.0f}s", flush=True)
    if step % config["save_every"] == 0:
        save_to_drive(step)
