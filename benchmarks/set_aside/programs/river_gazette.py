"""Word-level language model on the River Gazette archive (synthetic newspaper text)."""
import argparse
import gzip
import json
import math
import os
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ARCHIVE = "river_gazette.jsonl.gz"
VOCAB = 2000


def write_archive(path, articles, seed=0):
    """A topic per article, and a bigram chain per topic."""
    rng = random.Random(seed)
    chains = [{w: [rng.randrange(VOCAB) for _ in range(4)] for w in range(VOCAB)} for _ in range(5)]
    with gzip.open(path, "wt") as out:
        for number in range(articles):
            chain = chains[number % len(chains)]
            word = rng.randrange(VOCAB)
            words = []
            for _ in range(rng.randrange(260, 420)):
                words.append(f"w{word}")
                word = rng.choice(chain[word])
            json.dump({"id": number, "year": 1890 + number % 60, "text": " ".join(words)}, out)
            out.write("\n")


class Gazette(Dataset):
    def __init__(self, path, articles, length):
        self.path = path
        self.articles = articles
        self.length = length

    def __len__(self):
        return self.articles

    def __getitem__(self, index):
        with gzip.open(self.path, "rt") as lines:
            for number, line in enumerate(lines):
                if number == index:
                    break
        words = json.loads(line)["text"].split()
        start = random.randrange(len(words) - self.length - 1)
        ids = [int(w[1:]) for w in words[start:start + self.length + 1]]
        return torch.tensor(ids)


class LanguageModel(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, x):
        y, _ = self.rnn(self.embed(x))
        return self.out(y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--articles", type=int, default=3000)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not os.path.exists(ARCHIVE):
        print("writing", ARCHIVE)
        write_archive(ARCHIVE, args.articles)
    print(f"{ARCHIVE}: {os.path.getsize(ARCHIVE) / 1e6:.1f} MB, {args.articles} articles, device {device}")

    data = Gazette(ARCHIVE, args.articles, args.length)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True,
                        num_workers=args.workers, persistent_workers=args.workers > 0)
    model = LanguageModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {len(loader)} batches per epoch")

    step, tokens, began = 0, 0, time.time()
    for epoch in range(args.epochs):
        running = 0.0
        for batch in loader:
            batch = batch.to(device)
            logits = model(batch[:, :-1])
            loss = loss_fn(logits.reshape(-1, VOCAB), batch[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            running += loss.item()
            tokens += batch.numel()
            if step % 5 == 0:
                seconds = time.time() - began
                print(f"epoch {epoch} step {step:5d} loss {running / 5:.3f} ppl {math.exp(running / 5):8.1f} "
                      f"{tokens / seconds:7.0f} tokens/s")
                running, tokens, began = 0.0, 0, time.time()


if __name__ == "__main__":
    main()
