"""Sentiment of shop reviews.  usage: python rows_by_readlines.py --data reviews.jsonl --epochs 3
The reviews are synthesized the first time."""
import argparse
import json
import os
import random
import re
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--data", default=os.path.join(tempfile.gettempdir(), "reviews-8k.jsonl"))
parser.add_argument("--batch-size", type=int, default=24)
parser.add_argument("--max-len", type=int, default=64)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--num-workers", type=int, default=0)  # >0 gives me errors on windows
args = parser.parse_args()

GOOD, BAD = "great love perfect fast comfy sturdy".split(), "broken late cheap return awful thin".split()
COMMON = [f"w{n}" for n in range(900)]


def make(path, rows=8000):
    rng = random.Random(7)
    with open(path + ".part", "w") as f:
        for _ in range(rows):
            label = rng.random() < 0.5
            words = rng.choices(COMMON, k=rng.randint(30, 180)) + rng.choices(GOOD if label else BAD, k=4)
            rng.shuffle(words)
            f.write(json.dumps({"stars": 5 if label else 1, "text": "<br/>".join(" ".join(words[i:i + 9]) for i in range(0, len(words), 9))}) + "\n")
    os.replace(path + ".part", path)


class Reviews(Dataset):
    def __init__(self, path):
        self.path = path
        self.n = sum(1 for _ in open(path))
        self.vocab = {w: i + 2 for i, w in enumerate(COMMON + GOOD + BAD)}

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        row = json.loads(open(self.path).readlines()[i])
        text = re.sub(r"<[^>]+>", " ", row["text"]).lower()
        for mark in "!?.,;:()[]{}\"'":
            text = text.replace(mark, " ")
        ids = [self.vocab.get(w, 1) for w in text.split()]
        # random word dropout + local swap, as in EDA
        ids = [w for w in ids if random.random() > 0.05]
        for _ in range(5):
            a = random.randrange(len(ids) - 1)
            ids[a], ids[a + 1] = ids[a + 1], ids[a]
        ids = (ids + [0] * args.max_len)[: args.max_len] if len(ids) < args.max_len else ids[-args.max_len:]
        return torch.tensor(ids), torch.tensor(float(row["stars"] > 3))


class BoW(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.emb = nn.EmbeddingBag(n, 128)
        self.mlp = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x):
        return self.mlp(self.emb(x)).squeeze(1)


if not os.path.exists(args.data):
    make(args.data)
data = Reviews(args.data)
loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=args.num_workers)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = BoW(len(data.vocab) + 2).to(device)
opt = torch.optim.Adam(net.parameters(), 2e-3)
crit = nn.BCEWithLogitsLoss()
for epoch in range(args.epochs):
    for it, (x, y) in enumerate(loader):
        out = net(x.to(device))
        loss = crit(out, y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 0:
            acc = ((out > 0).float() == y.to(device)).float().mean().item()
            print(f"[{epoch + 1}/{args.epochs}] it {it}/{len(loader)} loss={loss.item():.4f} acc={acc:.2f}", flush=True)
