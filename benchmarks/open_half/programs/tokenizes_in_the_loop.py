#!/usr/bin/env python3
"""Fine-tunes a small encoder on support tickets (route to one of 8 queues)."""
import argparse
import random
import re
import time

import torch
from torch import nn


class WordPiece:
    """Pure Python, because the vocabulary has some rules of our own."""

    def __init__(self, words):
        pieces = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2}
        for w in words:
            for k in range(1, len(w) + 1):
                pieces.setdefault(w[:k], len(pieces))
                pieces.setdefault("##" + w[k - 1 :], len(pieces))
        self.vocab = pieces

    def word(self, w):
        out, start = [], 0
        while start < len(w):
            for end in range(len(w), start, -1):
                piece = ("##" if start else "") + w[start:end]
                if piece in self.vocab:
                    out.append(self.vocab[piece])
                    start = end
                    break
            else:
                return [1]
        return out

    def __call__(self, texts, max_length):
        rows = []
        for text in texts:
            text = re.sub(r"https?://\S+|\d{4,}", " ", text.lower())
            ids = [2]
            for w in re.findall(r"[a-z]+|[^\sa-z]", text):
                ids += self.word(w)
            rows.append((ids + [0] * max_length)[:max_length])
        return torch.tensor(rows)


class Encoder(nn.Module):
    def __init__(self, vocab, dim=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, batch_first=True, dropout=0.1)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls = nn.Linear(dim, 8)

    def forward(self, ids):
        return self.cls(self.enc(self.emb(ids)).mean(1))


def tickets(n, rng):
    words = ["".join(rng.choice("abcdefghijklmnoprstuvw") for _ in range(rng.randint(6, 16))) for _ in range(1500)]
    rows = []
    for _ in range(n):
        label = rng.randrange(8)
        body = [words[rng.randrange(1500)] if rng.random() < 0.8 else words[label * 20 + rng.randrange(20)] for _ in range(1100)]
        rows.append((" ".join(body) + " see https://tickets.local/" + str(rng.randrange(10**6)), label))
    return rows, words


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--max_length", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=100)
    args = ap.parse_args()
    rng = random.Random(0)
    data, words = tickets(2000, rng)
    tokenizer = WordPiece(words[:400])
    model = Encoder(len(tokenizer.vocab))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    print(f"{len(data)} tickets, vocabulary {len(tokenizer.vocab)}", flush=True)
    step, start = 0, time.time()
    for epoch in range(args.epochs):
        rng.shuffle(data)
        for i in range(0, len(data) - args.batch_size, args.batch_size):
            texts, labels = zip(*data[i : i + args.batch_size], strict=True)
            ids = tokenizer(list(texts), args.max_length)
            loss = nn.functional.cross_entropy(model(ids), torch.tensor(labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} ({5 / (time.time() - start):.2f} steps/s)", flush=True)
                start = time.time()


main()
