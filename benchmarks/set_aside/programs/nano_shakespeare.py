"""A small GPT on plays. Keeps the best checkpoint and writes a sample with it at the end."""
import argparse
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--out-dir", default="out-plays")
parser.add_argument("--max-iters", type=int, default=400)
parser.add_argument("--eval-interval", type=int, default=50)
parser.add_argument("--block-size", type=int, default=64)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--n-layer", type=int, default=3)
parser.add_argument("--n-head", type=int, default=4)
parser.add_argument("--n-embd", type=int, default=96)
parser.add_argument("--lr", type=float, default=1e-3)


def make_plays(n_words=60000, seed=3):
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(rng.choice(letters, rng.integers(2, 8))) for _ in range(200)]
    follow = rng.integers(0, 200, (200, 6))
    out, w = [], 0
    for i in range(n_words):
        out.append(words[w])
        w = follow[w, rng.integers(0, 6)]
        if i % 12 == 11:
            out.append("\n")
    return " ".join(out)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h = c.n_head
        self.ln1, self.ln2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.qkv, self.proj = nn.Linear(c.n_embd, 3 * c.n_embd), nn.Linear(c.n_embd, c.n_embd)
        self.mlp = nn.Sequential(nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = x + self.proj(y)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, c, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, c.n_embd), nn.Embedding(c.block_size, c.n_embd)
        self.blocks = nn.Sequential(*[Block(c) for _ in range(c.n_layer)])
        self.ln, self.head = nn.LayerNorm(c.n_embd), nn.Linear(c.n_embd, vocab, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        logits = self.head(self.ln(self.blocks(x)))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


def main():
    args = parser.parse_args()
    torch.manual_seed(1337)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = make_plays()
    chars = sorted(set(text))
    stoi = {ch: i for i, ch in enumerate(chars)}
    data = torch.tensor([stoi[ch] for ch in text])
    split = int(0.9 * len(data))
    splits = {"train": data[:split], "val": data[split:]}
    print(f"{len(text)} characters, vocabulary of {len(chars)}", flush=True)

    def get_batch(which):
        d = splits[which]
        ix = torch.randint(len(d) - args.block_size - 1, (args.batch_size,))
        x = torch.stack([d[i:i + args.block_size] for i in ix])
        y = torch.stack([d[i + 1:i + 1 + args.block_size] for i in ix])
        return x.to(device), y.to(device)

    model = GPT(args, len(chars)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    os.makedirs(args.out_dir, exist_ok=True)
    best = math.inf

    @torch.no_grad()
    def estimate():
        model.eval()
        losses = [model(*get_batch("val"))[1].item() for _ in range(10)]
        model.train()
        return np.mean(losses)

    for it in range(args.max_iters + 1):
        if it % args.eval_interval == 0:
            val = estimate()
            print(f"step {it}: val loss {val:.4f}", flush=True)
            if val < best:
                best = val
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "args": args,
                            "iter": it, "best_val_loss": best}, os.path.join(args.out_dir, "ckpt.pt"))
        _, loss = model(*get_batch("train"))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if it % 10 == 0:
            print(f"iter {it}: loss {loss.item():.4f}", flush=True)

    print("sampling from the best checkpoint", flush=True)
    ckpt = torch.load(os.path.join(args.out_dir, "ckpt.pt"), map_location=device)
    model.load_state_dict(ckpt["model"])
    model.eval()
    idx = torch.zeros((1, 1), dtype=torch.long, device=device)
    for _ in range(500):
        logits, _ = model(idx[:, -args.block_size:])
        idx = torch.cat([idx, torch.multinomial(logits[:, -1].softmax(-1), 1)], 1)
    print("".join(chars[i] for i in idx[0].tolist()))


if __name__ == "__main__":
    main()
