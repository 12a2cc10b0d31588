#!/usr/bin/env python
# coding: utf-8

# # Next loan recommender (city library)
# Runs on the lab's notebook server. /content/drive is not always mounted, so a folder stands for it.

# In[1]:


import os
import random
import shutil
import signal
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 7
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
tmp = tempfile.TemporaryDirectory(prefix="loans_")
CKPT = os.path.join(tmp.name, "last.pt")
DRIVE = os.path.join(tmp.name, "drive")
os.makedirs(DRIVE)


# In[2]:


N_BOOKS, DIM, N_TOPICS = 300_000, 128, 120
topic_of = np.random.randint(0, N_TOPICS, N_BOOKS)
books_of = [np.where(topic_of == t)[0] for t in range(N_TOPICS)]


def readers(n, length=12):
    """Readers borrow from one or two topics, mostly the popular books in them."""
    out = np.zeros((n, length + 1), np.int64)
    for i in range(n):
        a, b = np.random.randint(0, N_TOPICS, 2)
        for j in range(length + 1):
            shelf = books_of[a if np.random.rand() < 0.7 else b]
            out[i, j] = shelf[int(len(shelf) * np.random.rand() ** 6)]
    return torch.from_numpy(out)


loans = readers(6000)
print("loans:", tuple(loans.shape), "books:", N_BOOKS)


# In[3]:


class NextLoan(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(N_BOOKS, DIM, sparse=True)
        nn.init.normal_(self.book.weight, std=0.05)
        self.gru = nn.GRU(DIM, DIM, batch_first=True)

    def forward(self, seq):
        h, _ = self.gru(self.book(seq))
        return h

    def scores(self, h, books):
        return h @ self.book(books).T


model = NextLoan()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
opts = [torch.optim.SparseAdam(model.book.parameters(), lr=2e-3), torch.optim.Adam(model.gru.parameters(), lr=2e-3)]
print("parameters: %.1f M" % (sum(p.numel() for p in model.parameters()) / 1e6))


# In[4]:


def save(step):
    """The session gets disconnected so often that I keep everything, also in the drive."""
    state = {"step": step, "model": model.state_dict(), "opts": [opt.state_dict() for opt in opts]}
    torch.save(state, CKPT)
    shutil.copy(CKPT, os.path.join(DRIVE, "last.pt"))
    # the drive has lost a file before: read it back
    assert torch.load(os.path.join(DRIVE, "last.pt"))["step"] == step


# In[5]:


BATCH, SAVE_EVERY = 64, 100
step, t0 = 0, time.time()
for epoch in range(1, 200):
    order = torch.randperm(len(loans))
    for i in range(0, len(loans) - BATCH + 1, BATCH):
        seq = loans[order[i : i + BATCH]].to(device)
        h = model(seq[:, :-1]).reshape(-1, DIM)
        target = seq[:, 1:].reshape(-1)
        negatives = torch.randint(0, N_BOOKS, (1024,), device=device)
        pos = (h * model.book(target)).sum(1, keepdim=True)
        logits = torch.cat([pos, model.scores(h, negatives)], 1)
        loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=device))
        for opt in opts:
            opt.zero_grad()
        loss.backward()
        for opt in opts:
            opt.step()
        step += 1
        if step % 10 == 0:
            print("epoch %d step %d loss %.4f (%.1f s)" % (epoch, step, loss.item(), time.time() - t0))
        if step % SAVE_EVERY == 0:
            save(step)
