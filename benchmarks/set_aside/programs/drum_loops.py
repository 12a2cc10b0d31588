# -*- coding: utf-8 -*-
# VAE pour des boucles de batterie (9 instruments x 32 pas). La KL est annealée, sinon le posterior collapse.
import csv
import sys

import torch
from torch import nn
from torch.nn import functional as F

PARAMS = {"batch": 64, "z": 16, "epochs": 600, "lr": 1e-3, "warmup": 80, "free_bits": 0.0}
INSTR, PAS = 9, 32


def genere_boucles(n):
    """quelques styles, avec des variations au hasard"""
    g = torch.Generator().manual_seed(2)
    styles = (torch.rand(24, INSTR, PAS // 2, generator=g) < 0.25).float().repeat(1, 1, 2)
    quel = torch.randint(0, 24, (n,), generator=g)
    base = styles[quel]
    bruit = (torch.rand(n, INSTR, PAS, generator=g) < 0.04).float()
    return (base + bruit) % 2


class VAE(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(INSTR, 64, 3, padding=1), nn.ELU(), nn.Conv1d(64, 64, 4, 2, 1), nn.ELU(), nn.Conv1d(64, 64, 4, 2, 1), nn.ELU(), nn.Flatten()
        )
        self.mu, self.logvar = nn.Linear(64 * 8, z), nn.Linear(64 * 8, z)
        self.dec_in = nn.Linear(z, 64 * 8)
        self.dec = nn.Sequential(
            nn.ELU(), nn.ConvTranspose1d(64, 64, 4, 2, 1), nn.ELU(), nn.ConvTranspose1d(64, 64, 4, 2, 1), nn.ELU(), nn.Conv1d(64, INSTR, 3, padding=1)
        )

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(self.dec_in(z).view(-1, 64, 8)), mu, logvar


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
boucles = genere_boucles(4000)
modele = VAE(PARAMS["z"]).to(device)
optimiseur = torch.optim.Adam(modele.parameters(), lr=PARAMS["lr"])
sortie = csv.writer(sys.stdout)
sortie.writerow(["epoch", "beta", "loss", "recon", "kl"])
for epoch in range(PARAMS["epochs"]):
    beta = min(1.0, epoch / PARAMS["warmup"])
    sommes = torch.zeros(3)
    ordre = torch.randperm(len(boucles))
    n = 0
    for lot in ordre.split(PARAMS["batch"]):
        x = boucles[lot].to(device)
        logits, mu, logvar = modele(x)
        recon = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2)).mean()
        kl = (-0.5 * (1 + logvar - mu**2 - logvar.exp())).sum(1).mean()
        loss = recon + beta * kl
        optimiseur.zero_grad()
        loss.backward()
        optimiseur.step()
        sommes += torch.tensor([loss.item(), recon.item(), kl.item()])
        n += 1
    sortie.writerow([epoch, f"{beta:.3f}"] + [f"{v:.3f}" for v in (sommes / n).tolist()])
    sys.stdout.flush()
