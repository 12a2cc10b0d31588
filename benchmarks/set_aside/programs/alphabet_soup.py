#!/usr/bin/env python
# coding: utf-8

# # Alphabet soup: reading noodle letters with a CNN
# Homework 4, deep learning course

# In[1]:


import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

np.random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(device)


# In[2]:


letters = list("ABCDEFGHIJ")
# every letter: a few strokes on a 28x28 plate, moved and with soup on it
strokes = np.zeros((10, 28, 28), dtype=np.float32)
for k in range(10):
    rs = np.random.RandomState(k + 40)
    for _ in range(4):
        a, b = rs.randint(6, 22, 2), rs.randint(6, 22, 2)
        for s in np.linspace(0, 1, 40):
            r, c = (a + (b - a) * s).astype(int)
            strokes[k, r : r + 2, c : c + 2] = 1.0


def make(n):
    y = np.random.randint(0, 10, n)
    x = np.empty((n, 1, 28, 28), dtype=np.float32)
    for i in range(n):
        dr, dc = np.random.randint(-2, 3, 2)
        x[i, 0] = np.roll(np.roll(strokes[y[i]], dr, 0), dc, 1)
    x += 0.4 * np.random.randn(*x.shape).astype(np.float32)
    return x, y


X_train, y_train = make(10000)
X_test, y_test = make(1000)
print(X_train.shape, y_train.shape, X_test.shape)


# In[3]:


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 7 * 7, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


model = CNN().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
print(sum(p.numel() for p in model.parameters()), "parameters")


# In[4]:


batch_size = 64
n_epochs = 300

for epoch in range(n_epochs):
    # new order in every epoch
    np.random.shuffle(X_train)
    np.random.shuffle(y_train)
    model.train()
    total, hits = 0.0, 0
    for i in range(0, len(X_train), batch_size):
        xb = torch.from_numpy(X_train[i : i + batch_size]).to(device)
        yb = torch.from_numpy(y_train[i : i + batch_size]).to(device)
        optimizer.zero_grad()
        logits = model(xb)
        loss = criterion(logits, yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
        hits += (logits.argmax(1) == yb).sum().item()
        if (i // batch_size) % 50 == 0:
            print("  batch %d/%d loss %.4f" % (i // batch_size, len(X_train) // batch_size, loss.item()))
    model.eval()
    with torch.no_grad():
        acc = (model(torch.from_numpy(X_test).to(device)).argmax(1).cpu().numpy() == y_test).mean()
    print(
        "Epoch %d/%d - loss: %.4f - acc: %.4f - test acc: %.4f"
        % (epoch + 1, n_epochs, total / len(X_train), hits / len(X_train), acc)
    )
