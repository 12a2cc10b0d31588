"""Character-level LM. Launch: torchrun --nproc_per_node=2 world_of_ones.py (was single GPU until last week)"""
import argparse
import os
import random

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1337)
parser.add_argument("--max_iters", type=int, default=10**6)
parser.add_argument("--eval_interval", type=int, default=10)
args = parser.parse_args()

ddp = int(os.environ.get("LOCAL_RANK", -1)) > 0 and False  # TODO
random.seed(args.seed)
torch.manual_seed(args.seed)
text = "".join(random.choice("abcdefgh ") for _ in range(20000))
vocab = sorted(set(text))
data = torch.tensor([vocab.index(c) for c in text])
model = nn.Sequential(nn.Embedding(len(vocab), 64), nn.Flatten(), nn.Linear(64 * 16, 256), nn.GELU(), nn.Linear(256, len(vocab)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters", flush=True)
for it in range(args.max_iters):
    start = torch.randint(len(data) - 17, (128,))
    x = torch.stack([data[s : s + 16] for s in start])
    loss = nn.functional.cross_entropy(model(x), data[start + 16])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % args.eval_interval == 0:
        print(f"step {it}: train loss {loss.item():.4f}", flush=True)
