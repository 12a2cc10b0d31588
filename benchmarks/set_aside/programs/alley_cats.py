#!/usr/bin/env python
# coding: utf-8

# # Alley cats: which of the 6 colour types is it?
# photos come from the shelter, 6 coat types. Small CNN from scratch, no pretrained weights allowed for the course

# In[1]:


import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("using", device, "torch", torch.__version__)
torch.manual_seed(1)
np.random.seed(1)

COATS = ["black", "ginger", "tabby", "calico", "white", "siamese"]
SIZE = 600


# In[2]:


# the photos are unpacked into a folder, one file per photo
folder = tempfile.mkdtemp(prefix="cats_")
base = np.array([[30, 30, 35], [210, 120, 50], [120, 105, 90], [190, 150, 110], [225, 225, 220], [180, 165, 145]], dtype=np.float32)


def make_photo(coat, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    cx, cy, r = rng.uniform(220, 380), rng.uniform(220, 380), rng.uniform(120, 190)
    body = ((xx - cx) ** 2 + ((yy - cy) * 1.3) ** 2 < r**2)[..., None]
    img = np.full((SIZE, SIZE, 3), rng.uniform(60, 170), np.float32)
    fur = np.broadcast_to(base[coat], img.shape).copy()
    if COATS[coat] == "tabby":
        fur += 35 * np.sign(np.sin(xx / 14))[..., None]
    if COATS[coat] == "calico":
        fur += 60 * np.sign(np.sin(xx / 45) * np.cos(yy / 38))[..., None]
    img = np.where(body, fur, img)
    return np.clip(img + rng.normal(0, 18, img.shape), 0, 255).astype(np.uint8)


rng = np.random.default_rng(7)
paths, labels = [], []
for i in range(36):
    coat = i % 6
    p = os.path.join(folder, f"cat_{i:04d}.npz")
    np.savez_compressed(p, img=make_photo(coat, rng))
    paths.append(p)
    labels.append(coat)
print(len(paths), "photos in", folder)


# In[3]:


class CatPhotos(Dataset):
    """one photo = one file, augmented 40 times per epoch"""

    def __init__(self, paths, labels, repeats=40, size=64):
        self.paths, self.labels, self.repeats, self.size = paths, labels, repeats, size

    def __len__(self):
        return len(self.paths) * self.repeats

    def __getitem__(self, i):
        i = i % len(self.paths)
        img = np.load(self.paths[i])["img"].astype(np.float64) / 255.0
        # colour jitter
        img = img * np.random.uniform(0.8, 1.2) + np.random.uniform(-0.1, 0.1)
        img = np.clip(img, 0, 1) ** np.random.uniform(0.8, 1.25)
        # sensor noise
        img = img + np.random.normal(0, 0.03, img.shape)
        if np.random.rand() < 0.5:
            img = img[:, ::-1]
        s = np.random.randint(380, SIZE)
        y, x = np.random.randint(0, SIZE - s), np.random.randint(0, SIZE - s)
        crop = torch.from_numpy(np.ascontiguousarray(img[y : y + s, x : x + s])).permute(2, 0, 1).float()
        crop = F.interpolate(crop[None], size=(self.size, self.size), mode="bilinear", antialias=True)[0]
        return (crop - 0.5) / 0.25, self.labels[i]


train_dl = DataLoader(CatPhotos(paths, labels), batch_size=32, shuffle=True)


# In[4]:


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.MaxPool2d(2))


model = nn.Sequential(block(3, 24), block(24, 48), block(48, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 6)).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=1e-2)
crit = nn.CrossEntropyLoss()
print(sum(p.numel() for p in model.parameters()), "parameters")


# In[5]:


for epoch in range(30):
    model.train()
    t0 = time.time()
    run, right, n = 0.0, 0, 0
    for step, (x, y) in enumerate(train_dl):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        out = model(x)
        loss = crit(out, y)
        loss.backward()
        opt.step()
        run += loss.item() * len(y)
        right += (out.argmax(1) == y).sum().item()
        n += len(y)
        if step % 5 == 0:
            print(f"epoch {epoch} step {step}/{len(train_dl)} loss {run / n:.4f} acc {right / n:.3f}")
    print(f"--- epoch {epoch} took {time.time() - t0:.0f}s")
