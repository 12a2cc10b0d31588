# fruit stand classifier. mixup + label smoothing + heavy augmentaton, recipe from the timm docs as far as I understood it
import csv
import os
import sys
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 12
ALPHA = 0.8
SMOOTH = 0.1
EPOCHS = 80
BS = 64


def fruits(n, seed, size=40):
    rng = np.random.default_rng(seed)
    proto = np.random.default_rng(99)
    hue, shape = proto.uniform(0.1, 1, (CLASSES, 3)), proto.uniform(0.6, 1.6, CLASSES)
    yy, xx = np.mgrid[0:size, 0:size]
    y = rng.integers(0, CLASSES, n)
    x = np.zeros((n, 3, size, size), np.float32)
    for i, k in enumerate(y):
        cx, cy, r = rng.uniform(14, 26), rng.uniform(14, 26), rng.uniform(8, 13)
        m = ((xx - cx) * shape[k]) ** 2 + ((yy - cy) / shape[k]) ** 2 < r**2
        x[i] = rng.uniform(0.2, 0.6, (3, 1, 1))
        x[i][:, m] = (hue[k] * rng.uniform(0.8, 1.2))[:, None]
    return torch.from_numpy(x + rng.normal(0, 0.1, x.shape).astype(np.float32)), torch.from_numpy(y)


def augment(x):
    if torch.rand(()) < 0.5:
        x = x.flip(-1)
    b, _, h, w = x.shape
    x = x * (0.6 + 0.8 * torch.rand(b, 1, 1, 1)) + 0.2 * torch.randn(b, 3, 1, 1)
    for i in range(b):  # random erasing
        top, left = np.random.randint(0, h - 16), np.random.randint(0, w - 16)
        x[i, :, top : top + 16, left : left + 16] = torch.randn(3, 1, 1)
    return x


def mixup(x, y):
    lam = np.random.beta(ALPHA, ALPHA)
    perm = torch.randperm(len(x))
    t = F.one_hot(y, CLASSES).float() * (1 - SMOOTH) + SMOOTH / CLASSES
    return lam * x + (1 - lam) * x[perm], lam * t + (1 - lam) * t[perm]


def layer(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.GELU(), nn.MaxPool2d(2))


net = nn.Sequential(layer(3, 32), layer(32, 64), layer(64, 128), nn.Flatten(), nn.Dropout(0.5), nn.Linear(128 * 25, 128), nn.GELU(), nn.Dropout(0.3), nn.Linear(128, CLASSES))
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
np.random.seed(0)
net.to(device)
xtr, ytr = fruits(3000, 0)
xva, yva = fruits(600, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)

path = os.path.join(tempfile.mkdtemp(), "metrics.csv")
out = csv.writer(sys.stdout, lineterminator="\n")
out.writerow(["epoch", "train_loss", "train_acc", "val_loss", "val_acc", "lr"])
with open(path, "w") as f:
    for epoch in range(EPOCHS):
        net.train()
        tl, ta, n = 0.0, 0.0, 0
        for idx in torch.randperm(len(xtr)).split(BS):
            x, t = mixup(augment(xtr[idx].clone()), ytr[idx])
            x, t = x.to(device), t.to(device)
            logits = net(x)
            loss = -(t * F.log_softmax(logits, 1)).sum(1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            tl += loss.item() * len(idx)
            ta += (logits.argmax(1).cpu() == ytr[idx]).sum().item()
            n += len(idx)
        sched.step()
        net.eval()
        with torch.no_grad():
            logits = torch.cat([net(c.to(device)).cpu() for c in xva.split(200)])
        row = [epoch, f"{tl / n:.4f}", f"{ta / n:.4f}", f"{F.cross_entropy(logits, yva):.4f}", f"{(logits.argmax(1) == yva).float().mean():.4f}", f"{sched.get_last_lr()[0]:.5f}"]
        out.writerow(row)
        sys.stdout.flush()
        csv.writer(f).writerow(row)
