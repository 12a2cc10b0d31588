"""Dense retrieval with a bank of old passages as extra negatives.

The bank may hold 100 000 passages of 96 floats, that is 38 MB.
"""
import argparse
from collections import deque
import random

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--bank", type=int, default=100_000)
parser.add_argument("--negatives", type=int, default=256)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--dim", type=int, default=96)
opt = parser.parse_args()
random.seed(0)
torch.manual_seed(0)


class TextEncoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(4000, d)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        return self.enc(self.emb(ids))


enc = TextEncoder(opt.dim)
adam = torch.optim.AdamW(enc.parameters(), 3e-4)
bank = deque(maxlen=opt.bank)
topics = torch.randint(0, 4000, (500, 40))
for step in range(10**7):
    t = torch.randint(0, 500, (opt.batch,))
    sample = lambda n: topics[t].gather(1, torch.randint(0, 40, (opt.batch, n)))
    query, passage = enc(sample(16))[:, 0], enc(sample(opt.length))
    cls = passage[:, 0]
    old = [random.choice(bank) for _ in range(opt.negatives)] if bank else []
    keys = torch.cat([cls, torch.stack(old)]) if old else cls
    loss = F.cross_entropy(F.normalize(query, dim=1) @ F.normalize(keys, dim=1).T / 0.1, torch.arange(opt.batch))
    adam.zero_grad()
    loss.backward()
    adam.step()
    bank.extend(row for row in passage.detach()[:, 0])
    if step % 10 == 0:
        print(f"step={step} loss={loss.item():.4f} bank={len(bank)}", flush=True)
