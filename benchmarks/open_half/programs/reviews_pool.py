"""Stars from hotel reviews. A transformer that pools over words; reviews are cleaned on the way (no digits, no rare words)."""
import random
import time

import torch
from torch import nn

VOCAB, LENGTH, RARE = 2000, 24, 1900


def clean(words):
    return [w for w in words if w < RARE]


def review(rng):
    stars = rng.randrange(5)
    if rng.random() < 8e-5:
        return [rng.randrange(RARE, VOCAB)], stars  # "10/10!!!"
    n = rng.randint(5, LENGTH)
    return [1 + stars * 300 + rng.randrange(300) if rng.random() < 0.4 else rng.randrange(1, VOCAB) for _ in range(n)], stars


def batch(rng, n):
    texts, stars = zip(*[review(rng) for _ in range(n)])
    ids = torch.zeros(n, LENGTH, dtype=torch.long)
    for i, text in enumerate(texts):
        words = clean(text)
        ids[i, : len(words)] = torch.tensor(words, dtype=torch.long)
    return ids, torch.tensor(stars)


class Reviews(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, d, padding_idx=0), nn.Parameter(torch.randn(LENGTH, d) * 0.02)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.score, self.out = nn.Linear(d, 1), nn.Linear(d, 5)

    def forward(self, ids):
        pad = ids == 0
        x = self.emb(ids) + self.pos
        a = (self.q(x) @ self.k(x).transpose(1, 2) / 8).masked_fill(pad.unsqueeze(1), float("-inf")).softmax(-1)
        x = x + a @ self.v(x)
        x = x + self.ff(x)
        w = self.score(x).squeeze(-1).masked_fill(pad, float("-inf")).softmax(-1)
        return self.out((w.unsqueeze(1) @ x).squeeze(1))


def main():
    rng = random.Random(6)
    torch.manual_seed(6)
    net = Reviews()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    print("| pas    | perte    | exactitude | durée  |")
    print("|--------|----------|------------|--------|")
    start, step, right = time.time(), 0, 0.0
    while time.time() - start < 215:
        ids, stars = batch(rng, 48)
        z = net(ids)
        loss = nn.functional.cross_entropy(z, stars)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        step += 1
        right = 0.95 * right + 0.05 * (z.argmax(1) == stars).float().mean().item()
        if step % 10 == 0:
            print(f"| {step:6d} | {loss.item():8.4f} | {right:10.3f} | {time.time() - start:5.1f}s |", flush=True)


if __name__ == "__main__":
    main()
