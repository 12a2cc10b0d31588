# Klassifikation von Knöpfen (Praktikum Bildverarbeitung, Aufgabe 4)
# Datensatz: ein Ordner pro Klasse, wird hier einmalig erzeugt
import os
import shutil
import signal
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

KLASSEN = ["dreieck", "fuenfeck", "herz", "kreis", "oval", "quadrat", "raute", "ring", "sechseck", "stern"]
ANZAHL = 480
PUNKTE = {"dreieck": 3, "fuenfeck": 5, "quadrat": 4, "raute": 4, "sechseck": 6}


def form(name, rng, n=32):
    y, x = np.mgrid[0:n, 0:n].astype(np.float32)
    cx, cy = n / 2 + rng.uniform(-3, 3), n / 2 + rng.uniform(-3, 3)
    r = rng.uniform(8, 12)
    dx, dy = x - cx, y - cy
    rho, phi = np.hypot(dx, dy), np.arctan2(dy, dx) + (rng.uniform(-0.3, 0.3))
    if name == "kreis":
        m = rho < r
    elif name == "ring":
        m = (rho < r) & (rho > 0.55 * r)
    elif name == "oval":
        m = (dx / 1.2) ** 2 + (dy / 0.6) ** 2 < r * r
    elif name == "stern":
        m = rho < r * (0.65 + 0.35 * np.cos(5 * phi))
    elif name == "herz":
        m = rho < r * (1 - 0.7 * np.sin(phi)) * 0.75
    else:
        k = PUNKTE[name]
        if name == "raute":
            phi = phi + np.pi / 4
        a = np.pi / k
        m = rho * np.cos((phi % (2 * a)) - a) < r * np.cos(a)
        if name == "raute":
            m = np.abs(dx) / 0.6 + np.abs(dy) < r * 1.1
    farbe = rng.uniform(0.4, 1.0, 3)
    bild = rng.normal(0.15, 0.05, (n, n, 3))
    bild[m] = farbe + rng.normal(0, 0.05, (int(m.sum()), 3))
    return (np.clip(bild, 0, 1) * 255).astype(np.uint8)


def erzeuge(wurzel, anzahl, seed):
    rng = np.random.default_rng(seed)
    for k in KLASSEN:
        os.makedirs(os.path.join(wurzel, k))
        np.save(os.path.join(wurzel, k, "bilder.npy"), np.stack([form(k, rng) for _ in range(anzahl)]))


class KnopfDatensatz(Dataset):
    def __init__(self, wurzel):
        self.samples = []
        for label, k in enumerate(sorted(os.listdir(wurzel))):
            for bild in np.load(os.path.join(wurzel, k, "bilder.npy")):
                self.samples.append((bild, label))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, idx):
        bild, label = self.samples[idx]
        return torch.from_numpy(bild).permute(2, 0, 1).float().div(127.5).sub(1), label


class KnopfNetz(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 32, 3, padding=1)
        self.c2 = nn.Conv2d(32, 64, 3, padding=1)
        self.c3 = nn.Conv2d(64, 64, 3, padding=1)
        self.f1 = nn.Linear(64 * 16, 128)
        self.f2 = nn.Linear(128, len(KLASSEN))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.max_pool2d(F.relu(self.c3(x)), 2)
        return self.f2(F.relu(self.f1(x.flatten(1))))


@torch.no_grad()
def teste(netz, lader, geraet):
    netz.eval()
    richtig = gesamt = 0
    for x, y in lader:
        richtig += (netz(x.to(geraet)).argmax(1).cpu() == y).sum().item()
        gesamt += len(y)
    netz.train()
    return 100.0 * richtig / gesamt


def main():
    ordner = tempfile.mkdtemp(prefix="knoepfe_")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        erzeuge(os.path.join(ordner, "train"), ANZAHL, 0)
        erzeuge(os.path.join(ordner, "test"), 60, 1)
        geraet = "cuda" if torch.cuda.is_available() else "cpu"
        train = KnopfDatensatz(os.path.join(ordner, "train"))
        test = KnopfDatensatz(os.path.join(ordner, "test"))
        train_lader = DataLoader(train, batch_size=32, drop_last=True)
        test_lader = DataLoader(test, batch_size=100)
        print("Trainingsbilder:", len(train), "Testbilder:", len(test), "Klassen:", len(KLASSEN))

        netz = KnopfNetz().to(geraet)
        optimierer = torch.optim.Adam(netz.parameters(), lr=3e-4)
        for epoche in range(1, 101):
            t0 = time.time()
            for i, (x, y) in enumerate(train_lader):
                optimierer.zero_grad()
                loss = F.cross_entropy(netz(x.to(geraet)), y.to(geraet))
                loss.backward()
                optimierer.step()
                if i % 5 == 0:
                    print(f"Epoche {epoche} [{i}/{len(train_lader)}] loss={loss.item():.4f}")
            print(f"--- Epoche {epoche}: Testgenauigkeit {teste(netz, test_lader, geraet):.1f} %  ({time.time() - t0:.1f} s)")
    finally:
        shutil.rmtree(ordner, ignore_errors=True)


if __name__ == "__main__":
    main()
