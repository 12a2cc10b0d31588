# -*- coding: utf-8 -*-
"""Match supplier part descriptions to our catalogue (contrastive). Multi-GPU via HF Accelerate.

The workstation has two cards; batch_size is per card.
"""
import random
import time
from dataclasses import dataclass

print("loading libraries", flush=True)

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset


@dataclass
class Args:
    gpus: int = 2
    batch_size: int = 64
    base_lr: float = 4e-4
    epochs: int = 300
    parts: int = 6000
    seed: int = 17


class Parts(Dataset):
    """A pair: the catalogue text and how the supplier writes it."""

    def __init__(self, n, seed):
        self.rnd = random.Random(seed)
        alphabet = "ABCDEFGHKLMNPRSTUVWX0123456789-./ "
        self.idx = {c: i + 1 for i, c in enumerate(alphabet)}
        stems = ["".join(self.rnd.choices(alphabet[:-1], k=12)) for _ in range(3)]
        self.items = [self.rnd.choice(stems) + "-" + "".join(self.rnd.choices(alphabet[:-1], k=7)) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def noisy(self, s):
        s = list(s)
        for _ in range(self.rnd.randint(3, 7)):
            k = self.rnd.randrange(len(s))
            s[k] = self.rnd.choice("- ./") if self.rnd.random() < 0.6 else ""
        return "".join(self.rnd.choices("ABCDEFGH0123456789 ", k=self.rnd.randint(0, 8))) + "".join(s)

    def encode(self, s):
        ids = [self.idx[c] for c in s][:32]
        return torch.tensor(ids + [0] * (32 - len(ids)))

    def __getitem__(self, i):
        return self.encode(self.items[i]), self.encode(self.noisy(self.items[i]))


class Encoder(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.emb = nn.Embedding(36, d, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(32, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 256, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.proj = nn.Linear(d, 96)

    def forward(self, a, b):
        return self.one(a), self.one(b)

    def one(self, x):
        m = (x > 0).float().unsqueeze(-1)
        h = self.enc(self.emb(x) + self.pos, src_key_padding_mask=x == 0)
        return F.normalize(self.proj((h * m).sum(1) / m.sum(1)), dim=-1)


def main():
    args = Args()
    accelerator = Accelerator()
    set_seed(args.seed)
    accelerator.print(args)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.base_lr * args.gpus)
    loader = DataLoader(Parts(args.parts, args.seed), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step, t0 = 0, time.time()
    for epoch in range(args.epochs):
        for a, b in loader:
            u, v = model(a, b)
            logits = u @ v.T / 0.07
            target = torch.arange(len(u), device=logits.device)
            loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 5 == 0:
                accelerator.print(f"ep {epoch} it {step} loss {loss.item():.4f} {step / (time.time() - t0):.2f} it/s", flush=True)


if __name__ == "__main__":
    main()
