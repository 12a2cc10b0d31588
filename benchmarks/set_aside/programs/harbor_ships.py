# -*- coding: utf-8 -*-
# Localisation de navires dans des images radar d'un port (projet M2)
# lancement : torchrun --standalone --nproc_per_node=2 harbor_ships.py

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

TAILLE = 48


class ImagesPort(Dataset):
    """Un navire par image : centre, longueur, largeur."""

    def __init__(self, n, graine):
        g = torch.Generator().manual_seed(graine)
        self.boites = torch.rand(n, 4, generator=g) * torch.tensor([0.6, 0.6, 0.25, 0.1]) + torch.tensor([0.2, 0.2, 0.12, 0.06])
        self.bruit = torch.randint(0, 2**31, (n,), generator=g)

    def __len__(self):
        return len(self.boites)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(int(self.bruit[i]))
        cx, cy, lo, la = self.boites[i]
        axe = torch.linspace(0, 1, TAILLE)
        y, x = torch.meshgrid(axe, axe, indexing="ij")
        navire = ((x - cx).abs() < lo / 2) & ((y - cy).abs() < la / 2)
        image = navire.float() * 0.8 + 0.25 * torch.rand(TAILLE, TAILLE, generator=g)
        return image[None], self.boites[i]


class Reseau(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 24, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(48, 96, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(96, 96, 3, padding=1), nn.ReLU(),
        )
        self.tete = nn.Sequential(nn.Flatten(), nn.Linear(96 * 36, 256), nn.ReLU(), nn.Linear(256, 4), nn.Sigmoid())

    def forward(self, x):
        return self.tete(self.conv(x))


def iou(a, b):
    ax1, ay1, ax2, ay2 = a[:, 0] - a[:, 2] / 2, a[:, 1] - a[:, 3] / 2, a[:, 0] + a[:, 2] / 2, a[:, 1] + a[:, 3] / 2
    bx1, by1, bx2, by2 = b[:, 0] - b[:, 2] / 2, b[:, 1] - b[:, 3] / 2, b[:, 0] + b[:, 2] / 2, b[:, 1] + b[:, 3] / 2
    w = (torch.minimum(ax2, bx2) - torch.maximum(ax1, bx1)).clamp(min=0)
    h = (torch.minimum(ay2, by2) - torch.maximum(ay1, by1)).clamp(min=0)
    inter = w * h
    return inter / (a[:, 2] * a[:, 3] + b[:, 2] * b[:, 3] - inter + 1e-9)


def entrainer_epoque(model, loader, optimizer, critere, device, epoque, rang):
    model.train()
    debut = time.time()
    for i, (img, cible) in enumerate(loader):
        img, cible = img.to(device), cible.to(device)
        optimizer.zero_grad(set_to_none=True)
        perte = critere(model(img), cible)
        perte.backward()
        optimizer.step()
        if rang == 0 and i % 10 == 0:
            print("époque %d | lot %d/%d | perte %.5f | %.1f s" % (epoque, i, len(loader), perte.item(), time.time() - debut))
            sys.stdout.flush()


def valider(model, loader, device):
    model.eval()
    somme = torch.zeros(2, device=device)
    with torch.no_grad():
        for img, cible in loader:
            v = iou(model(img.to(device)), cible.to(device))
            somme += torch.tensor([v.sum().item(), float(len(v))], device=device)
    dist.all_reduce(somme)
    return (somme[0] / somme[1]).item()


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rang = dist.get_rank()
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local)
        device = torch.device("cuda", local)
    else:
        device = torch.device("cpu")

    torch.manual_seed(0)
    train, val = ImagesPort(6400, 1), ImagesPort(640, 2)
    echantillonneur = DistributedSampler(train, shuffle=True)
    train_loader = DataLoader(train, batch_size=32, sampler=echantillonneur, drop_last=True)
    val_loader = DataLoader(val, batch_size=64, sampler=DistributedSampler(val, shuffle=False))

    model = Reseau().to(device)
    ddp_model = DistributedDataParallel(model, device_ids=[local] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(ddp_model.parameters(), lr=5e-4)
    critere = nn.SmoothL1Loss(beta=0.05)
    if rang == 0:
        print("images :", len(train), "| processus :", dist.get_world_size())

    for epoque in range(60):
        echantillonneur.set_epoch(epoque)
        entrainer_epoque(model, train_loader, optimizer, critere, device, epoque, rang)
        precision = valider(model, val_loader, device)
        if rang == 0:
            print("époque %d | IoU moyenne %.4f" % (epoque, precision))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
