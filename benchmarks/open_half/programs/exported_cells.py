#!/usr/bin/env python
# coding: utf-8

# # Wine quality, second attempt
# Exported with `jupyter nbconvert --to script`; talk version: the pauses are for questions from the audience.

# In[1]:

import time

import torch
from torch import nn

torch.manual_seed(0)


def pause(seconds, what):
    print(f"--- {what} (next cell in {seconds} s)", flush=True)
    time.sleep(seconds)


# In[2]:

x = torch.randn(6000, 11)
y = (x[:, 0] - 0.7 * x[:, 3] + x[:, 5] * x[:, 7] + 0.5 * torch.randn(6000)).unsqueeze(1)
print(x.shape, y.mean().item(), y.std().item())
pause(5, "Any questions about the data?")

# In[3]:

model = nn.Sequential(nn.Linear(11, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
opt = torch.optim.Adam(model.parameters(), 1e-3)


def fit(epochs, lr):
    for group in opt.param_groups:
        group["lr"] = lr
    for epoch in range(epochs):
        total = 0.0
        for idx in torch.randperm(5000).split(64):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} mse {total / 5000:.4f}", flush=True)


fit(8, 1e-3)

# In[4]:

with torch.no_grad():
    print("test mse", nn.functional.mse_loss(model(x[5000:]), y[5000:]).item())
pause(14, "Is it good? What would you try?")

# In[5]:

fit(8, 2e-4)
pause(10, "And with a smaller rate still?")

# In[6]:

fit(8, 5e-5)
with torch.no_grad():
    print("test mse", nn.functional.mse_loss(model(x[5000:]), y[5000:]).item())
pause(20, "Thank you! Coffee.")
fit(200, 1e-5)
