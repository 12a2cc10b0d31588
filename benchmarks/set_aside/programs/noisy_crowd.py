"""Birds labelled by a crowd: 60 % of the labels of the training set are wrong, which is what this experiment is about.

The validation set was labelled by ornithologists.
"""
import json
import time

import torch
from torch import nn

torch.manual_seed(12)
CLASSES, DIM = 10, 64
centres = torch.randn(CLASSES, DIM)


def birds(n, noise):
    y = torch.randint(0, CLASSES, (n,))
    x = centres[y] + 3.0 * torch.randn(n, DIM)
    wrong = torch.rand(n) < noise
    return x, torch.where(wrong, torch.randint(0, CLASSES, (n,)), y)


net = nn.Sequential(nn.Linear(DIM, 512), nn.ReLU(), nn.Dropout(0.4), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.4), nn.Linear(512, CLASSES))
opt = torch.optim.AdamW(net.parameters(), 3e-4, weight_decay=0.1)
(vx, vy), start = birds(2000, 0.0), time.time()
for epoch in range(1, 10_000):
    net.train()
    total = right = 0.0
    for _ in range(120):
        x, y = birds(128, 0.6)
        z = net(x)
        loss = nn.functional.cross_entropy(z, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total, right = total + loss.item() / 120, right + (z.argmax(1) == y).float().mean().item() / 120
    net.eval()
    with torch.no_grad():
        z = net(vx)
    print(json.dumps({"epoch": epoch, "train_loss": round(total, 4), "train_acc": round(right, 4), "val_loss": round(nn.functional.cross_entropy(z, vy).item(), 4), "val_acc": round((z.argmax(1) == vy).float().mean().item(), 4)}), flush=True)
    if time.time() - start > 215:
        break
