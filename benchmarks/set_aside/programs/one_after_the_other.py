import argparse
import time

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--owner")
p.add_argument("--seconds", type=float)
a = p.parse_args()
seed = sum(map(ord, a.owner))
torch.manual_seed(seed)
w = 64 + seed % 64
vocab, rule = 60, torch.randint(0, 60, (60, 60))
net = nn.Sequential(nn.Embedding(vocab, w), nn.Flatten(), nn.Linear(2 * w, 4 * w), nn.ReLU(), nn.Linear(4 * w, vocab))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
start, i = time.time(), 0
while time.time() - start < a.seconds:
    pair = torch.randint(0, vocab, (256, 2))
    loss = nn.functional.cross_entropy(net(pair), rule[pair[:, 0], pair[:, 1]])
    opt.zero_grad()
    loss.backward()
    opt.step()
    i += 1
    if i % 100 == 0:
        print(f"{a.owner}: iter {i}, loss {loss.item():.4f}")
print(f"{a.owner}: done")
