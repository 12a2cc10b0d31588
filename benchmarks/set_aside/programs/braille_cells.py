#!/usr/bin/env python
# coding: utf-8

# # Braille reader
# Following "A Recipe for Training Neural Networks": first overfit one batch, only then the real thing.

# In[1]:


import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rng = np.random.default_rng(0)


# In[2]:


patterns = np.array([[int(b) for b in np.binary_repr(k, 6)] for k in rng.choice(np.arange(1, 64), 26, replace=False)])


def cells(n):
    y = rng.integers(0, 26, n)
    yy, xx = np.mgrid[0:40, 0:28]
    x = np.zeros((n, 1, 40, 28), np.float32)
    for i, k in enumerate(y):
        ox, oy = rng.uniform(-3, 3, 2)
        for d in range(6):
            if patterns[k, d]:
                cx, cy = 9 + 10 * (d // 3) + ox, 9 + 11 * (d % 3) + oy
                x[i, 0] += rng.uniform(0.5, 1.0) * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 6)
        x[i, 0] += rng.normal(0, 0.35, (40, 28))
    return torch.from_numpy(x), torch.from_numpy(y)


train = TensorDataset(*cells(6000))
test = TensorDataset(*cells(1000))


# In[3]:


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 10 * 7, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 26),
    )


loss_fn = nn.CrossEntropyLoss()


# In[4]:


# sanity check: can it memorize 32 cells?
print("overfitting a single batch")
net = make_net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = next(iter(DataLoader(train, batch_size=32)))
for it in range(600):
    loss = loss_fn(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 25 == 0:
        print(f"it {it:4d} loss {loss.item():.4f}")
print("ok, memorized")


# In[5]:


# now all of it, new weights
net = make_net()
opt = torch.optim.Adam(net.parameters(), lr=5e-4)
loader = DataLoader(train, batch_size=64, shuffle=True)
it = 0
for epoch in range(45):
    net.train()
    for x, y in loader:
        loss = loss_fn(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 25 == 0:
            print(f"it {it:4d} loss {loss.item():.4f}")
        it += 1
    net.eval()
    with torch.no_grad():
        acc = np.mean([(net(a).argmax(1) == b).float().mean().item() for a, b in DataLoader(test, batch_size=250)])
    print(f"epoch {epoch} test accuracy {acc:.3f}")
