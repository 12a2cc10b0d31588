"""Sentiment of short posts with a BiLSTM. First try with my own Dataset class."""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SENTIMENTS = ["negative", "neutral", "positive"]


def write_posts(n, seed):
    """Makes posts that look like ours (the real ones may not be shared)."""
    base = np.random.default_rng(99)
    syll = ["ba", "ko", "ri", "mu", "te", "la", "so", "ni", "du", "fe", "zo", "gi"]
    def words(k):
        return ["".join(base.choice(syll, base.integers(2, 4))) + str(base.integers(0, 99)) for _ in range(k)]
    common, toned = words(1500), [words(120) for _ in SENTIMENTS]
    rng = np.random.default_rng(seed)
    posts, labels = [], []
    zipf = 1 / np.arange(5, 1505)
    zipf /= zipf.sum()
    for _ in range(n):
        y = int(rng.integers(0, 3))
        k = int(rng.integers(10, 26))
        text = [common[i] for i in rng.choice(1500, k, p=zipf)]
        for _ in range(int(rng.integers(2, 5))):
            tone = y if rng.random() < 0.85 else int(rng.integers(0, 3))
            text[int(rng.integers(0, k))] = toned[tone][int(rng.integers(0, 120))]
        posts.append(" ".join(text))
        labels.append(y)
    return posts, labels


class PostDataset(Dataset):
    def __init__(self, posts, labels, max_len=32, max_vocab=4000):
        self.vocab = {"<pad>": 0, "<unk>": 1}
        for post in posts:
            for token in post.split():
                if token not in self.vocab and len(self.vocab) < max_vocab:
                    self.vocab[token] = len(self.vocab)
        self.ids = torch.zeros(len(posts), max_len, dtype=torch.long)
        for i, post in enumerate(posts):
            ids = [self.vocab.get(t, 1) for t in post.split()][:max_len]
            self.ids[i, :len(ids)] = torch.tensor(ids)
        self.labels = torch.tensor(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


class BiLSTM(nn.Module):
    def __init__(self, vocab_size=4000, emb=96, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(2 * hidden, len(SENTIMENTS))

    def forward(self, ids):
        h, _ = self.lstm(self.drop(self.emb(ids)))
        return self.fc(self.drop(h.max(1).values))


def evaluate(model, loader, criterion, device):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    with torch.no_grad():
        for ids, y in loader:
            ids, y = ids.to(device), y.to(device)
            out = model(ids)
            loss += criterion(out, y).item() * len(y)
            hit += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    a = ap.parse_args()
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_ds = PostDataset(*write_posts(9000, 1))
    val_ds = PostDataset(*write_posts(1000, 2))
    print(f"train vocab {len(train_ds.vocab)}  val vocab {len(val_ds.vocab)}  device {device}", flush=True)
    train_dl = DataLoader(train_ds, a.batch_size, shuffle=True)
    val_dl = DataLoader(val_ds, 256)
    model = BiLSTM().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=a.lr, weight_decay=1e-5)
    for epoch in range(1, a.epochs + 1):
        model.train()
        t0, s, hit, n = time.time(), 0.0, 0, 0
        for b, (ids, y) in enumerate(train_dl, 1):
            ids, y = ids.to(device), y.to(device)
            out = model(ids)
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            s += loss.item() * len(y)
            hit += (out.argmax(1) == y).sum().item()
            n += len(y)
            if b % 40 == 0:
                print(f"  epoch {epoch} batch {b}/{len(train_dl)} loss {s / n:.4f}", flush=True)
        val_loss, val_acc = evaluate(model, val_dl, criterion, device)
        print(f"epoch {epoch}: train_loss {s / n:.4f} train_acc {hit / n:.3f} val_loss {val_loss:.4f} "
              f"val_acc {val_acc:.3f} time {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
