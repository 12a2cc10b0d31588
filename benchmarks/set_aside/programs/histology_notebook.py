#!/usr/bin/env python
# coding: utf-8

# # Tumour patches: small ResNet with dropout

# In[1]:


import time
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0); np.random.seed(0)
print(torch.__version__, device, flush=True)


# In[2]:


def patches(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=g)
    base = torch.rand(n, 3, 1, 1, generator=g) * 0.4 + 0.3
    x = base + 0.12 * torch.randn(n, 3, 48, 48, generator=g)
    yy, xx = torch.meshgrid(torch.arange(48), torch.arange(48), indexing="ij")
    for i in range(n):
        for _ in range(6 if y[i] else 3):
            cx, cy = torch.randint(4, 44, (2,), generator=g).tolist()
            r = 2.5 + 2.0 * torch.rand(1, generator=g).item()
            x[i, :, (xx - cx) ** 2 + (yy - cy) ** 2 < r * r] -= 0.22
    return x, y

X_train, y_train = patches(2400, 1)
X_val, y_val = patches(320, 2)
mean, std = X_train.mean((0, 2, 3), keepdim=True), X_train.std((0, 2, 3), keepdim=True)
X_train, X_val = (X_train - mean) / std, (X_val - mean) / std
X_train.shape, X_val.shape


# In[3]:


class Res(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.skip = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(h)) + self.skip(x))

model = nn.Sequential(Res(3, 16, 1), nn.MaxPool2d(2), Res(16, 32, 2), nn.Dropout2d(0.2), Res(32, 64, 2),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 2)).to(device)
sum(p.numel() for p in model.parameters())


# In[4]:


def accuracy(X, y):
    model.eval()
    with torch.no_grad():
        out = torch.cat([model(b.to(device)).argmax(1).cpu() for b in X.split(64)])
    return (out == y).float().mean().item()

print("accuracy before training:", round(accuracy(X_val, y_val), 3), flush=True)


# In[5]:


optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
history = {"loss": [], "val": []}

for epoch in range(120):
    t = time.time()
    order = np.random.permutation(len(X_train))
    losses = []
    for k in range(0, len(order), 32):
        b = order[k:k + 32]
        xb, yb = X_train[b].to(device), y_train[b].to(device)
        if np.random.rand() < 0.5:
            xb = xb.flip(-1)
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) % 10 == 0:
            print(f"  {epoch:02d}:{len(losses):03d}  {np.mean(losses[-10:]):.4f}", flush=True)
    history["loss"].append(np.mean(losses))
    history["val"].append(accuracy(X_val, y_val))
    print(f"epoch {epoch:02d}  loss {history['loss'][-1]:.4f}  val acc {history['val'][-1]:.3f}  ({time.time() - t:.1f} s)", flush=True)


# In[6]:


print("best", max(history["val"]))
