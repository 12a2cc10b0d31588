#!/usr/bin/env python
# coding: utf-8

# # Leaf diseases, baseline
# folders -> one list of (picture, label)

# In[1]:


import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)


# In[2]:


CLASSES = ["healthy", "rust", "blight", "mildew", "mosaic", "scab", "rot", "spot"]
proto = torch.randn(len(CLASSES), 3, 8, 8)


def load_folder(label, n):
    # one folder per class
    base = nn.functional.interpolate(proto[label][None], scale_factor=4, mode="bilinear")
    return base + 1.2 * torch.randn(n, 3, 32, 32), torch.full((n,), label)


train = [load_folder(i, 800) for i in range(len(CLASSES))]
val = [load_folder(i, 50) for i in range(len(CLASSES))]
train_ds = TensorDataset(torch.cat([t[0] for t in train]), torch.cat([t[1] for t in train]))
val_ds = TensorDataset(torch.cat([t[0] for t in val]), torch.cat([t[1] for t in val]))
len(train_ds), len(val_ds)


# In[3]:


train_dl = DataLoader(train_ds, batch_size=32)
val_dl = DataLoader(val_ds, batch_size=100)
net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, len(CLASSES)),
)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()


# In[4]:


for epoch in range(10000):
    net.train()
    for i, (x, y) in enumerate(train_dl):
        loss = loss_fn(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"epoch {epoch} batch {i}/{len(train_dl)} loss {loss.item():.4f}", flush=True)
    net.eval()
    with torch.no_grad():
        hits = sum((net(x).argmax(1) == y).sum().item() for x, y in val_dl)
    print(f"==> epoch {epoch}: val accuracy {100 * hits / len(val_ds):.1f} %", flush=True)
