"""Seq2seq with attention on a toy task: read a string, write it backwards. Teacher forcing that fades out.

    python reverses_strings.py --hidden 96 --csv run.csv
"""
import argparse
import csv
import random
import sys
import time

import torch
from torch import nn

PAD, SOS, FIRST = 0, 1, 2


class Encoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden, padding_idx=PAD)
        self.gru = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)

    def forward(self, src):
        out, h = self.gru(self.embed(src))
        return self.bridge(out), torch.tanh(self.bridge(torch.cat([h[0], h[1]], 1)))


class Decoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(2 * hidden, vocab)

    def step(self, token, h, memory, mask):
        score = torch.einsum("bh,bth->bt", h, memory).masked_fill(mask, -1e9).softmax(1)
        ctx = torch.einsum("bt,bth->bh", score, memory)
        h = self.cell(torch.cat([self.embed(token), ctx], 1), h)
        return self.out(torch.cat([h, ctx], 1)), h


def batch(size, vocab, longest):
    n = torch.randint(4, longest + 1, (size,))
    src = torch.randint(FIRST, vocab, (size, longest))
    where = torch.arange(longest)
    src[where >= n[:, None]] = PAD
    tgt = torch.full_like(src, PAD)
    for i, k in enumerate(n.tolist()):
        tgt[i, :k] = src[i, :k].flip(0)
    return src, tgt


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=96)
    p.add_argument("--vocab", type=int, default=28)
    p.add_argument("--longest", type=int, default=14)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--csv", type=argparse.FileType("w"), default=sys.stdout)
    a = p.parse_args()
    torch.manual_seed(5)
    random.seed(5)
    enc, dec = Encoder(a.vocab, a.hidden), Decoder(a.vocab, a.hidden)
    params = [*enc.parameters(), *dec.parameters()]
    opt = torch.optim.Adam(params, a.lr)
    lossf = nn.CrossEntropyLoss(ignore_index=PAD)
    w = csv.writer(a.csv)
    w.writerow(["iter", "loss", "token_acc", "forcing", "sec"])
    t0, it = time.time(), 0
    while True:
        it += 1
        forcing = max(0.3, 1 - it / 3000)
        src, tgt = batch(48, a.vocab, a.longest)
        memory, h = enc(src)
        tok, logits = torch.full((len(src),), SOS), []
        for t in range(a.longest):
            o, h = dec.step(tok, h, memory, src == PAD)
            logits.append(o)
            tok = tgt[:, t] if random.random() < forcing else o.argmax(1)
        logits = torch.stack(logits, 1)
        loss = lossf(logits.flatten(0, 1), tgt.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        if it % 25 == 0:
            real = tgt != PAD
            acc = (logits.argmax(2) == tgt)[real].float().mean().item()
            w.writerow([it, f"{loss.item():.4f}", f"{acc:.4f}", f"{forcing:.2f}", f"{time.time() - t0:.1f}"])
            a.csv.flush()


if __name__ == "__main__":
    main()
