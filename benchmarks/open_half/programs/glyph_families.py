"""Families of glyphs from 24 scripts. Train and validation pages come from two index files."""
import csv
import io
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SCRIPTS = (
    "arabic armenian bengali cherokee coptic cyrillic devanagari ethiopic georgian glagolitic gothic greek "
    "hebrew kannada khmer lao mongolian ogham runic sinhala tamil thai tibetan tifinagh"
).split()


def index_file(n, seed):
    """page, script"""
    rng = random.Random(seed)
    return "\n".join(f"{rng.randrange(10**6):06d},{rng.choice(SCRIPTS)}" for _ in range(n))


def factorize(values):
    codes, uniques = [], {}
    for v in values:
        codes.append(uniques.setdefault(v, len(uniques)))
    return codes, list(uniques)


class Glyphs(Dataset):
    def __init__(self, text):
        rows = list(csv.reader(io.StringIO(text)))
        self.pages = [int(r[0]) for r in rows]
        self.scripts = [r[1] for r in rows]
        self.labels, self.classes = factorize(self.scripts)
        self.shape = {s: nn.functional.interpolate(torch.randn(1, 1, 7, 7, generator=torch.Generator().manual_seed(sum(map(ord, s)))), size=(32, 32))[0] for s in SCRIPTS}

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.pages[i])
        shift = torch.randint(-2, 3, (2,), generator=g).tolist()
        return self.shape[self.scripts[i]].roll(shift, (1, 2)) + 1.2 * torch.randn(1, 32, 32, generator=g), self.labels[i]


def run_epoch(net, loader, opt=None):
    net.train(opt is not None)
    total = hits = n = 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return total / n, hits / n


def main():
    torch.manual_seed(0)
    train, val = Glyphs(index_file(1200, 1)), Glyphs(index_file(240, 2))
    print(f"{len(train)} + {len(val)} glyphs, {len(train.classes)} and {len(val.classes)} classes", flush=True)
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(val, 96)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Dropout(0.3), nn.Linear(800, 24),
    )  # fmt: skip
    opt = torch.optim.AdamW(net.parameters(), 5e-4, weight_decay=1e-2)
    for epoch in range(1, 200):
        t0 = time.time()
        loss, acc = run_epoch(net, loaders[0], opt)
        val_loss, val_acc = run_epoch(net, loaders[1])
        print(f"Epoch {epoch:03d} - train_loss: {loss:.4f} - train_acc: {acc:.4f} - val_loss: {val_loss:.4f} - val_acc: {val_acc:.4f} - {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
