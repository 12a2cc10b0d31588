#!/usr/bin/env python
# coding: utf-8

# # Demand for rental bikes
# Hourly demand at 30 stations, an LSTM over the last two days.

# In[1]:

import time

import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(42)
torch.manual_seed(42)

# In[2]:

hours = np.arange(24 * 400)
daily = np.stack([np.roll(np.exp(2 * np.cos(2 * np.pi * (hours - 8) / 24)), s % 5) for s in range(30)], 1)
weekly = 1 + 0.5 * (hours // 24 % 7 < 5)[:, None]
demand = (daily * weekly + 0.3 * rng.standard_normal((len(hours), 30))).astype("float32")
demand = (demand - demand.mean()) / demand.std()
print("demand", demand.shape, "std %.2f" % demand.std())

# In[3]:


class Model(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.lstm = nn.LSTM(30, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 30)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


model = Model()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

# In[4]:


def train_epoch(n_batches=60, batch_size=32):
    model.train()
    losses = []
    for _ in range(n_batches):
        at = rng.integers(0, len(demand) - 400, batch_size)
        x = torch.from_numpy(np.stack([demand[i : i + 48] for i in at]))
        y = torch.from_numpy(demand[at + 48])
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.item())
    return np.mean(losses)


@torch.no_grad()
def validate():
    model.eval()
    at = np.arange(len(demand) - 350, len(demand) - 49)
    x = torch.from_numpy(np.stack([demand[i : i + 48] for i in at]))
    return criterion(model(x), torch.from_numpy(demand[at + 48])).item()


# In[5]:

t0 = time.time()
for epoch in range(1, 1000):
    train = train_epoch()
    print(f"Epoch {epoch:03d} - train MSE: {train:.5f} - val MSE: {validate():.5f} - {time.time() - t0:.0f}s", flush=True)
    if time.time() - t0 > 215:
        break
