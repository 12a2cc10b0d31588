#!/usr/bin/env python
# coding: utf-8

# # Concrete slump: predicting the slump of a mix from its recipe
# (exported from slump_v3.ipynb)

# In[1]:


import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

np.random.seed(42)
torch.manual_seed(42)


# In[2]:


# cement, slag, fly ash, water, plasticizer, coarse, fine, age, temperature
N = 24000
low = np.array([137.0, 0.0, 0.0, 160.0, 4.0, 708.0, 640.0, 1.0, 2.0])
high = np.array([374.0, 193.0, 260.0, 240.0, 19.0, 1050.0, 902.0, 90.0, 35.0])
X = np.random.uniform(low, high, size=(N, 9))

ratio = X[:, 3] / (X[:, 0] + 0.5 * X[:, 1] + 0.3 * X[:, 2])
y = (
    30 * ratio
    + 0.9 * X[:, 4]
    - 0.012 * (X[:, 5] - 880)
    + 3.0 * np.sin(X[:, 8] / 6.0)
    - 2.0 * np.log(X[:, 7])
    + np.random.randn(N) * 0.6
)


# In[3]:


split = int(0.85 * N)
mu, sd = X[:split].mean(0), X[:split].std(0)
X = (X - mu) / sd
y_mu, y_sd = y[:split].mean(), y[:split].std()
y = (y - y_mu) / y_sd

X_train = torch.tensor(X[:split], dtype=torch.float32)
y_train = torch.tensor(y[:split], dtype=torch.float32)
X_val = torch.tensor(X[split:], dtype=torch.float32)
y_val = torch.tensor(y[split:], dtype=torch.float32)
print(X_train.shape, y_train.shape, X_val.shape, y_val.shape)


# In[4]:


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(TensorDataset(X_train, y_train), batch_size=64, shuffle=True)
val_loader = DataLoader(TensorDataset(X_val, y_val), batch_size=256)


# In[5]:


class SlumpNet(nn.Module):
    def __init__(self, n_in=9, width=384):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(width, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.net(x)


model = SlumpNet().to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model


# In[6]:


EPOCHS = 900
history = {"loss": [], "val_loss": []}

for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for xb, yb in train_loader:
        xb, yb = xb.to(device), yb.to(device)
        optimizer.zero_grad()
        y_hat = model(xb)
        loss = criterion(y_hat, yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    history["loss"].append(total / len(X_train))

    model.eval()
    total = 0.0
    with torch.no_grad():
        for xb, yb in val_loader:
            total += criterion(model(xb.to(device)), yb.to(device)).item() * len(xb)
    history["val_loss"].append(total / len(X_val))
    print(f"Epoch {epoch}/{EPOCHS} - loss: {history['loss'][-1]:.4f} - val_loss: {history['val_loss'][-1]:.4f}")


# In[7]:


torch.save(model.state_dict(), "/tmp/slump.pt")
