#!/usr/bin/env python
# coding: utf-8

# # Lake levels: 48 hours ahead
# Encoder-decoder with scheduled sampling. With less teacher forcing the training task gets harder,
# so only `val` (which always runs freely) can be compared between epochs.

# In[1]:


import math
import random
import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(1)
np.random.seed(1)
random.seed(1)
device = "cuda" if torch.cuda.is_available() else "cpu"


# In[2]:


def lake(hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    rain = np.convolve((rng.random(hours) < 0.02) * rng.gamma(2.0, 1.0, hours), np.exp(-np.arange(60) / 18.0), "full")[:hours]
    seiche = 0.8 * np.sin(2 * math.pi * t / 11.3 + np.cumsum(rng.normal(0, 0.012, hours)))
    level = 1.2 * np.sin(2 * math.pi * t / (24 * 30)) + 0.4 * np.sin(2 * math.pi * t / 24) + seiche + 0.25 * rain
    return ((level - level.mean()) / level.std() + rng.normal(0, 0.05, hours)).astype(np.float32)


PAST, AHEAD = 72, 48
lakes = [lake(2600, s) for s in range(8)]
train = [l[:2000] for l in lakes]
val = [l[2000:] for l in lakes]


def windows(series, n):
    out = []
    for _ in range(n):
        s = random.choice(series)
        i = random.randrange(len(s) - PAST - AHEAD)
        out.append(s[i : i + PAST + AHEAD])
    w = torch.from_numpy(np.stack(out))[:, :, None].to(device)
    return w[:, :PAST], w[:, PAST:]


print(len(train), "lakes,", len(train[0]), "hours each")


# In[3]:


class Seq2Seq(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.encoder = nn.GRU(1, hidden, batch_first=True)
        self.cell = nn.GRUCell(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, past, future=None, teacher=0.0):
        _, h = self.encoder(past)
        h, x = h[0], past[:, -1]
        ys = []
        for k in range(AHEAD):
            h = self.cell(x, h)
            y = x + self.out(h)
            ys.append(y)
            x = future[:, k] if future is not None and random.random() < teacher else y
        return torch.stack(ys, 1)


net = Seq2Seq().to(device)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
loss_fn = nn.MSELoss()
val_windows = [windows(val, 64) for _ in range(4)]


# In[4]:


for epoch in range(1, 181):
    teacher = max(0.0, 1.0 - epoch / 30)
    t0 = time.time()
    net.train()
    losses = []
    for step in range(40):
        past, future = windows(train, 64)
        loss = loss_fn(net(past, future, teacher), future)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        v = np.mean([loss_fn(net(p), f).item() for p, f in val_windows])
    print("epoch %3d  teacher %.2f  loss %.4f  val %.4f  (%.1fs)" % (epoch, teacher, np.mean(losses), v, time.time() - t0))
