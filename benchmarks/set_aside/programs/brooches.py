#!/usr/bin/env python
# coding: utf-8

# # Convolutional autoencoder for brooch photos
# (the museum wants a latent space of all its brooches)

# In[1]:


import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

torch.manual_seed(0)


# In[2]:


class Brooches(Dataset):
    """rendered brooches: a ring, some stones, a pin"""

    def __init__(self, n=880, size=64):
        rng = np.random.default_rng(5)
        yy, xx = np.mgrid[0:size, 0:size] - size / 2
        r, phi = np.hypot(yy, xx), np.arctan2(yy, xx)
        self.imgs = np.zeros((n, 3, size, size), np.uint8)
        for i in range(n):
            k, radius, width = rng.integers(3, 9), rng.uniform(14, 26), rng.uniform(2, 5)
            metal, stone = rng.uniform(90, 230, 3), rng.uniform(0, 255, 3)
            ring = np.exp(-((r - radius) ** 2) / width**2)
            stones = np.exp(-((r - radius) ** 2) / 12) * (np.cos(k * phi + rng.uniform(0, 6)) > 0.6)
            img = 20 + ring * metal[:, None, None]
            self.imgs[i] = np.clip(np.where(stones > 0.4, stone[:, None, None], img), 0, 255)

    def __len__(self):
        return len(self.imgs)

    def __getitem__(self, i):
        return torch.from_numpy(self.imgs[i]).float() / 255


loader = DataLoader(Brooches(), batch_size=12, shuffle=True)
len(loader)


# In[3]:


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 128, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(128, 256, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(256, 512, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(512, 32, 8),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(32, 512, 8), nn.ReLU(),
            nn.ConvTranspose2d(512, 256, 3, stride=2, padding=1, output_padding=1), nn.ReLU(),
            nn.ConvTranspose2d(256, 128, 3, stride=2, padding=1, output_padding=1), nn.ReLU(),
            nn.ConvTranspose2d(128, 3, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


device = "cuda" if torch.cuda.is_available() else "cpu"
model = Autoencoder().to(device)
criterion = nn.MSELoss()
optimizer = optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)


# In[4]:


# Point to training loop video
num_epochs = 20
outputs = []
for epoch in range(num_epochs):
    bar = tqdm(loader, desc=f"epoch {epoch}")
    for img in bar:
        img = img.to(device)
        recon = model(img)
        loss = criterion(recon, img)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=f"{loss.item():.4f}")
        outputs.append((epoch, img, recon))


# In[5]:


# before / after for each epoch, for the slides
for k in range(0, num_epochs, 4):
    imgs = [o for o in outputs if o[0] == k][0]
    print(k, "error of the first batch", ((imgs[1] - imgs[2]) ** 2).mean().item())
