"""Stromverbrauch der naechsten Stunde aus den letzten zwei Tagen vorhersagen (Hausarbeit, Modul Zeitreihen)."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def erzeuge_verbrauch(stunden, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(stunden)
    tag = 0.9 * np.sin(2 * np.pi * (t - 7) / 24) + 0.35 * np.sin(4 * np.pi * t / 24)
    woche = 0.5 * (((t // 24) % 7) < 5)
    ar = np.zeros(stunden)
    for i in range(1, stunden):
        ar[i] = 0.93 * ar[i - 1] + rng.normal(0, 0.12)
    return (2.5 + tag + woche + ar).astype(np.float32)


class Verbrauch(Dataset):
    def __init__(self, reihe, fenster):
        self.reihe = torch.from_numpy((reihe - reihe.mean()) / reihe.std())
        self.fenster = fenster

    def __len__(self):
        return len(self.reihe) - self.fenster

    def __getitem__(self, i):
        x = self.reihe[i : i + self.fenster].unsqueeze(-1)
        y = self.reihe[i + self.fenster]
        return x, y


class Prognose(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(1, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.kopf = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        h, _ = self.gru(x)
        return self.kopf(h[:, -1])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=96)
    ap.add_argument("--fenster", type=int, default=48)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--epochen", type=int, default=200)
    args = ap.parse_args()
    print(args)

    torch.manual_seed(0)
    geraet = "cuda" if torch.cuda.is_available() else "cpu"
    lader = DataLoader(Verbrauch(erzeuge_verbrauch(24 * 200, 0), args.fenster), batch_size=args.batch, shuffle=True, drop_last=True)
    netz = Prognose(args.hidden).to(geraet)
    optimierer = torch.optim.Adam(netz.parameters(), lr=args.lr)
    verlust = nn.MSELoss()

    for epoche in range(args.epochen):
        netz.train()
        summe = 0.0
        for i, (x, y) in enumerate(lader, 1):
            x, y = x.to(geraet), y.to(geraet)
            optimierer.zero_grad()
            v = verlust(netz(x), y)
            v.backward()
            nn.utils.clip_grad_norm_(netz.parameters(), 1.0)
            optimierer.step()
            summe += v.item()
            if i % 20 == 0:
                print(f"Epoche {epoche + 1:3d}  Schritt {i:3d}/{len(lader)}  MSE {summe / i:.4f}", flush=True)


if __name__ == "__main__":
    main()
