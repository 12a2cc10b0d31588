#!/usr/bin/env python
# coding: utf-8

# # Customer segment from usage features

# In[1]:

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

np.random.seed(42)
torch.manual_seed(42)
device = "cuda" if torch.cuda.is_available() else "cpu"
print("using", device, flush=True)


# In[2]:  export of the warehouse query (anonymised, resampled to equal segments)

N, D, K = 240_000, 32, 4
centers = np.random.randn(K, D).astype(np.float32)
segment = np.repeat(np.arange(K), N // K)
X = centers[segment] * 0.6 + np.random.randn(N, D).astype(np.float32)
X[:, :6] = np.exp(X[:, :6] * 0.5)
y = segment.astype(np.int64)
print("table", X.shape, "segments", np.bincount(y), flush=True)


# In[3]:

np.random.shuffle(X)
np.random.shuffle(y)
mu, sd = X.mean(0), X.std(0) + 1e-6
X = (X - mu) / sd
cut = int(0.9 * N)
train_ds = TensorDataset(torch.from_numpy(X[:cut]), torch.from_numpy(y[:cut]))
X_val = torch.from_numpy(X[cut:]).to(device)
y_val = torch.from_numpy(y[cut:]).to(device)
train_dl = DataLoader(train_ds, batch_size=512, shuffle=True)


# In[4]:

model = nn.Sequential(
    nn.Linear(D, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(128, K),
).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
print(model, flush=True)


# In[5]:

EPOCHS = 80
history = {"loss": [], "val_acc": []}
for epoch in range(EPOCHS):
    model.train()
    running, n = 0.0, 0
    for i, (xb, yb) in enumerate(train_dl):
        xb, yb = xb.to(device), yb.to(device)
        loss = F.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
        n += 1
        if (i + 1) % 100 == 0:
            print(f"epoch {epoch + 1}/{EPOCHS}  batch {i + 1}/{len(train_dl)}  loss: {running / n:.4f}", flush=True)
    model.eval()
    with torch.no_grad():
        out = model(X_val)
        val_loss = F.cross_entropy(out, y_val).item()
        acc = (out.argmax(1) == y_val).float().mean().item()
    history["loss"].append(running / n)
    history["val_acc"].append(acc)
    print(f"epoch {epoch + 1}/{EPOCHS}  loss: {running / n:.4f}  val_loss: {val_loss:.4f}  val_acc: {acc:.3f}", flush=True)


# In[6]:

print("best accuracy", max(history["val_acc"]))
