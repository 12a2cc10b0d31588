#!/usr/bin/env python3
# Schweissnaht-Klassifikation, Masterarbeit. Bilder werden simuliert, bis die echten Daten da sind.
import argparse
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KLASSEN = ["ok", "pore", "riss", "spritzer", "kerbe", "bindefehler"]


def naht_bild(klasse, gen):
    """ein Graustufenbild 0..255"""
    h = w = 40
    bild = gen.normal(110, 18, (h, w))
    y = gen.integers(14, 26)
    bild[y - 4 : y + 4] += 45
    xs = gen.integers(4, w - 8, size=4)
    if klasse == 1:
        for x in xs:
            bild[y - 2 : y + 1, x : x + 3] -= 90
    elif klasse == 2:
        bild[y - 1 : y + 1, 5:35] -= 100
    elif klasse == 3:
        for x in xs:
            bild[(y + 9) % h : (y + 9) % h + 2, x : x + 2] += 100
    elif klasse == 4:
        bild[y + 3 : y + 6] -= 80
    elif klasse == 5:
        bild[y - 4 : y + 4, w // 2 :] -= 40
    return np.clip(bild, 0, 255).astype(np.uint8)


class Nahtdaten(Dataset):
    def __init__(self, n, seed, transform=None):
        gen = np.random.default_rng(seed)
        self.labels = gen.integers(0, len(KLASSEN), n)
        self.bilder = np.stack([naht_bild(k, gen) for k in self.labels])
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        bild = torch.from_numpy(self.bilder[i]).float().unsqueeze(0)
        if self.transform is not None:
            bild = self.transform(bild)
        return bild, int(self.labels[i])


def train_transform(b):
    b = b / 255.0
    b = (b - 0.45) / 0.12
    if random.random() < 0.5:
        b = b.flip(-1)
    return b


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.b(self.a(x)) + self.skip(x))


def hauptprogramm():
    p = argparse.ArgumentParser()
    p.add_argument("--epochen", type=int, default=150)
    p.add_argument("--batch", type=int, default=50)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.manual_seed(1)
    geraet = "cuda" if torch.cuda.is_available() else "cpu"

    train_set = Nahtdaten(2400, 0, train_transform)
    val_set = Nahtdaten(600, 1)
    train_loader = DataLoader(train_set, args.batch, shuffle=True)
    val_loader = DataLoader(val_set, 100)
    print(f"{len(train_set)} Trainingsbilder, {len(val_set)} Validierungsbilder, Geraet {geraet}")

    netz = nn.Sequential(
        Block(1, 16, 2), Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 6)
    ).to(geraet)
    opt = torch.optim.AdamW(netz.parameters(), lr=args.lr, weight_decay=1e-2)
    krit = nn.CrossEntropyLoss()

    for ep in range(1, args.epochen + 1):
        netz.train()
        summe = richtig = 0
        for x, y in train_loader:
            x, y = x.to(geraet), y.to(geraet)
            aus = netz(x)
            loss = krit(aus, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            summe += loss.item() * len(y)
            richtig += (aus.argmax(1) == y).sum().item()
        netz.eval()
        vsumme = vrichtig = 0
        with torch.no_grad():
            for x, y in val_loader:
                x, y = x.to(geraet), y.to(geraet)
                aus = netz(x)
                vsumme += krit(aus, y).item() * len(y)
                vrichtig += (aus.argmax(1) == y).sum().item()
        print(
            f"Epoche {ep:3d}  train_loss {summe / len(train_set):.4f}  train_acc {richtig / len(train_set):.3f}"
            f"  val_loss {vsumme / len(val_set):.4f}  val_acc {vrichtig / len(val_set):.3f}"
        )


if __name__ == "__main__":
    hauptprogramm()
