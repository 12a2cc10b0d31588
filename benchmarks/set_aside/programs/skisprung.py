"""Haltungsnoten im Skispringen aus Posenfolgen. Cosinus-Lernrate mit Neustarts (SGDR): bei jedem Neustart steigt der Verlust."""
import time

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

torch.manual_seed(8)
GELENKE, BILDER = 17, 24
richtung = torch.randn(2 * GELENKE)


def spruenge(n):
    ruhe = torch.rand(n, 1)
    pose = torch.randn(n, 1, 2 * GELENKE) + (1 - ruhe.unsqueeze(-1)) * torch.randn(n, BILDER, 2 * GELENKE)
    note = 14 + 4 * ruhe + 0.5 * torch.tanh(pose.mean(1) @ richtung).unsqueeze(1)
    return pose, note + 0.1 * torch.randn(n, 1)


class Punktrichter(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.rnn = nn.LSTM(2 * GELENKE, h, batch_first=True)
        self.note = nn.Linear(h, 1)

    def forward(self, x):
        return 15 + self.note(self.rnn(x)[0].mean(1))


netz = Punktrichter()
optimierer = torch.optim.SGD(netz.parameters(), lr=0.15, momentum=0.9)
plan = CosineAnnealingWarmRestarts(optimierer, T_0=200, T_mult=1, eta_min=1e-4)
beginn, schritt, mittel = time.time(), 0, None
while time.time() - beginn < 205:
    x, y = spruenge(24)
    verlust = (netz(x) - y).square().mean()
    optimierer.zero_grad()
    verlust.backward()
    nn.utils.clip_grad_norm_(netz.parameters(), 1.0)
    optimierer.step()
    plan.step()
    mittel = verlust.item() if mittel is None else 0.9 * mittel + 0.1 * verlust.item()
    schritt += 1
    if schritt % 20 == 0:
        print(f"Schritt {schritt:5d}   Verlust {mittel:.4f}   Lernrate {plan.get_last_lr()[0]:.5f}   {'NEUSTART' if schritt % 200 == 0 else ''}", flush=True)
