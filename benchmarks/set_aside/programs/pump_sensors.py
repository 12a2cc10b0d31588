"""Anomalieerkennung an Pumpen: ein Autoencoder über Fenster von Sensorwerten."""
import logging
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.INFO, datefmt="%H:%M:%S")
FENSTER, KANÄLE = 128, 6


class Fenster(Dataset):
    def __init__(self, länge=60_000):
        rng = np.random.default_rng(5)
        t = np.arange(länge)
        grund = np.stack([np.sin(t / (17 + 9 * k)) + 0.3 * np.sin(t / (5 + k)) for k in range(KANÄLE)], 1)
        self.werte = (grund + 0.1 * rng.standard_normal((länge, KANÄLE))).astype(np.float32)

    def __len__(self):
        return len(self.werte) - FENSTER

    def __getitem__(self, i):
        w = self.werte[i : i + FENSTER]
        return torch.from_numpy((w - w.mean(0)) / (w.std(0) + 1e-3)).T


class Autoencoder(nn.Module):
    def __init__(self, breite=64, code=12):
        super().__init__()
        self.hinein = nn.Sequential(nn.Conv1d(KANÄLE, breite, 7, 2, 3), nn.GELU(), nn.Conv1d(breite, breite, 7, 2, 3), nn.GELU(), nn.Flatten(), nn.Linear(breite * 32, code))
        self.hinaus = nn.Sequential(nn.Linear(code, breite * 32), nn.Unflatten(1, (breite, 32)), nn.GELU(), nn.ConvTranspose1d(breite, breite, 8, 2, 3), nn.GELU(), nn.ConvTranspose1d(breite, KANÄLE, 8, 2, 3))

    def forward(self, x):
        return self.hinaus(self.hinein(x))


def main(schritte=5000, dauer=215):
    torch.manual_seed(0)
    loader = DataLoader(Fenster(), batch_size=64, shuffle=True, num_workers=2)
    netz = Autoencoder()
    optimierer = torch.optim.AdamW(netz.parameters(), 1e-3)
    logging.info("Beginn, %d Parameter", sum(p.numel() for p in netz.parameters()))
    anfang = time.time()
    for schritt in range(1, schritte + 1):
        x = next(iter(loader))
        fehler = nn.functional.mse_loss(netz(x), x)
        optimierer.zero_grad()
        fehler.backward()
        optimierer.step()
        if schritt % 5 == 0:
            logging.info("Schritt %d  Fehler %.4f  %.2f Schritte/s", schritt, fehler.item(), schritt / (time.time() - anfang))
        if time.time() - anfang > dauer:
            break
    logging.info("Ende")


if __name__ == "__main__":
    main()
