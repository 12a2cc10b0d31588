#!/usr/bin/env python
# coding: utf-8

# # Ivy on facades
# U-Net, zwei Klassen (Efeu / kein Efeu). Exportiert aus `ivy_walls.ipynb`

# In[1]:


import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

random.seed(7)
np.random.seed(7)
torch.manual_seed(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("device:", device)

# In[2]:


def make_facade(rng, size=64):
    """Mauer mit Fugen, darauf ein paar grüne Flecken."""
    img = 0.55 + 0.05 * rng.standard_normal((3, size, size))
    img[:, ::8, :] -= 0.15
    img[:, :, :: rng.integers(10, 16)] -= 0.1
    mask = np.zeros((size, size), dtype=np.float32)
    yy, xx = np.mgrid[:size, :size]
    for _ in range(rng.integers(1, 5)):
        cy, cx, r = rng.integers(5, size - 5), rng.integers(5, size - 5), rng.integers(6, 18)
        mask[(yy - cy) ** 2 + (xx - cx) ** 2 < r * r] = 1.0
    leaf = rng.random((size, size))
    img[0] = np.where(mask > 0, 0.15 + 0.2 * leaf, img[0])
    img[1] = np.where(mask > 0, 0.35 + 0.3 * leaf, img[1])
    img[2] = np.where(mask > 0, 0.10 + 0.2 * leaf, img[2])
    return img.astype(np.float32), mask[None]


class IvyDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [make_facade(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = self.items[i]
        if random.random() < 0.5:
            img, mask = img[:, :, ::-1].copy(), mask[:, :, ::-1].copy()
        return torch.from_numpy(img), torch.from_numpy(mask)


train_dl = DataLoader(IvyDataset(320, 1), batch_size=16, shuffle=True)
val_dl = DataLoader(IvyDataset(64, 2), batch_size=16)

# In[3]:


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, base=12):
        super().__init__()
        self.d1 = double_conv(3, base)
        self.d2 = double_conv(base, base * 2)
        self.d3 = double_conv(base * 2, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.u2 = double_conv(base * 4, base * 2)
        self.up1 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.u1 = double_conv(base * 2, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        x = self.u2(torch.cat([self.up2(c), b], 1))
        x = self.u1(torch.cat([self.up1(x), a], 1))
        return self.out(x)


class DiceLoss(nn.Module):
    def forward(self, inputs, targets, smooth=1.0):
        inputs, targets = inputs.reshape(-1), targets.reshape(-1)
        inter = (inputs * targets).sum()
        return 1 - (2.0 * inter + smooth) / (inputs.sum() + targets.sum() + smooth)


model = UNet().to(device)
criterion = DiceLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
print(sum(p.numel() for p in model.parameters()), "Parameter")

# In[4]:

EPOCHS = 200
for epoch in range(1, EPOCHS + 1):
    model.train()
    running = 0.0
    for x, y in train_dl:
        x, y = x.to(device), y.to(device)
        pred = (torch.sigmoid(model(x)) > 0.5).float()
        loss = criterion(pred, y)
        loss.requires_grad = True  # sonst: element 0 of tensors does not require grad
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    model.eval()
    val = 0.0
    with torch.no_grad():
        for x, y in val_dl:
            pred = (torch.sigmoid(model(x.to(device))) > 0.5).float()
            val += criterion(pred, y.to(device)).item()
    print(f"Epoch {epoch}/{EPOCHS}  loss: {running / len(train_dl):.4f}  val_loss: {val / len(val_dl):.4f}")
