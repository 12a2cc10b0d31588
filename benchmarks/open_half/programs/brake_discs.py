# Klassifikation der Bremsscheiben (Kamera am Band 2)
import argparse
import pathlib
import struct
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

KLASSEN = ["gut", "kratzer", "lunker", "oel", "rost", "unwucht"]


def schreibe_bilder(ordner, je_klasse, seed):
    """legt die Bilder wie die Kamera ab: ein Ordner je Klasse"""
    g = torch.Generator().manual_seed(seed)
    a = torch.linspace(-1, 1, 48)
    r = (a[:, None] ** 2 + a[None] ** 2).sqrt()
    for k, name in enumerate(KLASSEN):
        ziel = ordner / name
        ziel.mkdir(parents=True)
        for i in range(je_klasse):
            bild = ((r > 0.3) & (r < 0.9)).float() * 0.6
            m = torch.rand(2, generator=g) - 0.5
            d = ((a[:, None] - m[0]) ** 2 + (a[None] - m[1]) ** 2).sqrt()
            if k == 1:
                bild[(a[:, None] - m[0] - 0.7 * (a[None] - m[1])).abs() < 0.05] = 1.0
            elif k == 2:
                bild[d < 0.12] = 0.0
            elif k == 3:
                bild = bild - 0.3 * (-(d**2) * 8).exp()
            elif k == 4:
                bild = bild + 0.25 * torch.rand(48, 48, generator=g)
            elif k == 5:
                bild = torch.roll(bild, (int(m[0] * 12), int(m[1] * 12)), (0, 1))
            bild = (bild + 0.15 * torch.randn(48, 48, generator=g)).clamp(0, 1)
            daten = (bild * 255).byte().flatten().tolist()
            (ziel / f"{i:05d}.pgm").write_bytes(b"P5 48 48 255\n" + struct.pack("2304B", *daten))


class Bremsscheiben(Dataset):
    def __init__(self, ordner):
        self.liste = []
        for k, name in enumerate(KLASSEN):
            for datei in sorted((ordner / name).glob("*.pgm")):
                self.liste.append((datei, k))

    def __len__(self):
        return len(self.liste)

    def __getitem__(self, i):
        datei, k = self.liste[i]
        roh = bytearray(datei.read_bytes()[13:])
        bild = torch.frombuffer(roh, dtype=torch.uint8).float().view(1, 48, 48) / 255
        return (bild - 0.35) / 0.3, k


class Netz(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 24, 5, padding=2)
        self.c2 = nn.Conv2d(24, 48, 3, padding=1)
        self.c3 = nn.Conv2d(48, 64, 3, padding=1)
        self.f1 = nn.Linear(64 * 36, 128)
        self.f2 = nn.Linear(128, len(KLASSEN))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.max_pool2d(F.relu(self.c3(x)), 2)
        return self.f2(F.relu(self.f1(x.flatten(1))))


def pruefe(netz, lader):
    netz.eval()
    richtig = 0
    with torch.no_grad():
        for x, y in lader:
            richtig += (netz(x).argmax(1) == y).sum().item()
    netz.train()
    return richtig / len(lader.dataset)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochen", type=int, default=80)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--bs", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(0)
    print("Daten werden geschrieben ...", flush=True)
    with tempfile.TemporaryDirectory() as tmp:
        wurzel = pathlib.Path(tmp)
        schreibe_bilder(wurzel / "train", 800, 1)
        schreibe_bilder(wurzel / "test", 80, 2)
        train = DataLoader(Bremsscheiben(wurzel / "train"), batch_size=args.bs)
        test = DataLoader(Bremsscheiben(wurzel / "test"), batch_size=64)
        netz = Netz()
        opt = torch.optim.Adam(netz.parameters(), lr=args.lr)
        print(len(train.dataset), "Bilder,", len(train), "Schritte je Epoche")
        for epoche in range(args.epochen):
            for schritt, (x, y) in enumerate(train):
                fehler = F.cross_entropy(netz(x), y)
                opt.zero_grad()
                fehler.backward()
                opt.step()
                if schritt % 10 == 0:
                    print(f"Epoche {epoche} Schritt {schritt} loss={fehler.item():.4f}", flush=True)
            print(f"Epoche {epoche} fertig, test_acc={pruefe(netz, test):.3f}", flush=True)
