"""Junk letters of a post office. Rare kinds are drawn more often (see Weights)."""
import time

import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(1)
N, KINDS, BATCH = 900_000, 20, 64
kind = np.minimum(rng.geometric(0.25, N) - 1, KINDS - 1)
weight = 1.0 / np.bincount(kind, minlength=KINDS)[kind]


class Weights:
    def __iter__(self):
        while True:
            yield rng.choice(N, BATCH, replace=False, p=weight / weight.sum())


class Letters(torch.utils.data.Dataset):
    centres = torch.randn(KINDS, 200) / 2

    def __len__(self):
        return N

    def __getitem__(self, i):
        return self.centres[kind[i]] + torch.randn(200), int(kind[i])


loader = torch.utils.data.DataLoader(Letters(), batch_sampler=Weights())
net = nn.Sequential(nn.Linear(200, 256), nn.ReLU(), nn.Linear(256, KINDS))
opt = torch.optim.Adam(net.parameters(), 5e-4)
begin = time.time()
for step, (x, y) in enumerate(loader, 1):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"{step} batches, loss {loss.item():.4f}, {step / (time.time() - begin):.1f} batches/s", flush=True)
    if time.time() - begin > 400:
        break
