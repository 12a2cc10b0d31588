"""Captioning toy. A thread reports to our status page; the tokenizer has a cache behind a lock. The loader has two workers."""
import argparse
import threading
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Tokenizer:
    def __init__(self):
        self.cache, self.lock = {}, threading.Lock()

    def __call__(self, text):
        with self.lock:
            if text not in self.cache:
                self.cache[text] = [ord(c) % 64 for c in text]
            return self.cache[text]

    def dump_statistics(self):
        with self.lock:
            n = sum(len(v) for v in self.cache.values())
            time.sleep(0.4)  # POST to the status page
        return n


TOKENIZER = Tokenizer()


def report(every=0.001):
    while True:
        TOKENIZER.dump_statistics()
        time.sleep(every)


class Captions(Dataset):
    def __init__(self, split):
        self.split = split

    def __len__(self):
        return 640 if self.split == "train" else 160

    def __getitem__(self, i):
        text = f"a picture of {'cats dogs birds boats'.split()[i % 4]} number {i % 500:05d}"
        g = torch.Generator().manual_seed(i)
        return torch.randn(256, generator=g), torch.tensor(TOKENIZER(text)[:24])


class Captioner(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.img, self.emb, self.rnn, self.out = nn.Linear(256, d), nn.Embedding(64, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, 64)

    def forward(self, v, t):
        h, _ = self.rnn(self.emb(t[:, :-1]), self.img(v)[None])
        return self.out(h)


def run(model, loader, opt=None):
    total = 0.0
    for n, (v, t) in enumerate(loader):
        logits = model(v, t)
        loss = nn.functional.cross_entropy(logits.reshape(-1, 64), t[:, 1:].reshape(-1))
        if opt:
            opt.zero_grad()
            loss.backward()
            opt.step()
            if n % 4 == 0:
                print(f"   {n:3d}/{len(loader)}  loss {loss.item():.3f}", flush=True)
        total += loss.item()
    return total / len(loader)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--report-from", type=int, default=3, help="tell the status page from this epoch on")
    args = ap.parse_args()
    model = Captioner()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    train = DataLoader(Captions("train"), 32, shuffle=True, num_workers=args.workers)
    val = DataLoader(Captions("val"), 32)
    for epoch in range(1000):
        if epoch == args.report_from:
            threading.Thread(target=report, daemon=True).start()
            time.sleep(0.1)
        print(f"epoch {epoch}", flush=True)
        a = run(model, train, opt)
        b = run(model, val) if epoch < args.report_from else float("nan")
        print(f"epoch {epoch} train {a:.3f} val {b:.3f}", flush=True)
