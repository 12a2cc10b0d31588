"""Regiments of tin soldiers (20 uniforms), trained with mixup, label smoothing and random erasing.

The training loss is that of the mixed images, the validation loss that of the plain ones.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

cfg = dict(classes=20, train=5000, val=1000, bs=64, epochs=70, lr=2e-3, wd=0.05, smoothing=0.1, alpha=0.8, warmup=3)


def soldiers(n, seed):
    uniforms = np.random.default_rng(99).uniform(0.1, 0.9, (cfg["classes"], 4, 3))  # hat, coat, belt, trousers
    rng = np.random.default_rng(seed)
    y = rng.integers(0, cfg["classes"], n)
    x = rng.normal(0.5, 0.12, (n, 3, 36, 36)).astype(np.float32)
    for i, k in enumerate(y):
        u = np.clip(uniforms[k] + rng.normal(0, 0.07, (4, 3)), 0, 1)
        dx, dy, w = rng.integers(-5, 6), rng.integers(-3, 4), rng.integers(4, 6)
        left, right = 18 + dx - w, 18 + dx + w
        for part, (top, bottom) in enumerate(((4, 10), (14, 22), (22, 24), (24, 32))):
            x[i, :, top + dy : bottom + dy, left:right] = u[part][:, None, None] + rng.normal(0, 0.05)
        x[i, :, 10 + dy : 14 + dy, left + 1 : right - 1] = np.array([0.9, 0.7, 0.6])[:, None, None]
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.pw1 = nn.Conv2d(dim, 3 * dim, 1)
        self.pw2 = nn.Conv2d(3 * dim, dim, 1)
        self.gamma = nn.Parameter(0.1 * torch.ones(dim, 1, 1))

    def forward(self, x):
        return x + self.gamma * self.pw2(F.gelu(self.pw1(self.norm(self.dw(x)))))


def build():
    return nn.Sequential(
        nn.Conv2d(3, 40, 4, stride=4), ConvNeXtBlock(40), ConvNeXtBlock(40),
        nn.Conv2d(40, 80, 3, stride=2, padding=1), ConvNeXtBlock(80), ConvNeXtBlock(80),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(80), nn.Linear(80, cfg["classes"]),
    )


def mixup(x, y, alpha):
    lam = np.random.beta(alpha, alpha)
    perm = torch.randperm(len(x))
    target = F.one_hot(y, cfg["classes"]).float()
    return lam * x + (1 - lam) * x[perm], lam * target + (1 - lam) * target[perm]


def erase(x):
    for i in range(len(x)):
        if torch.rand(()) < 0.25:
            t, l = torch.randint(0, 26, (2,)).tolist()
            x[i, :, t : t + 10, l : l + 10] = torch.rand(3, 1, 1)
    return x


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(soldiers(cfg["train"], 0), cfg["bs"], shuffle=True, drop_last=True)
    val_loader = DataLoader(soldiers(cfg["val"], 1), 200)
    model = build().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["wd"])
    steps, warmup = cfg["epochs"] * len(train_loader), cfg["warmup"] * len(train_loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: s / warmup if s < warmup else 0.5 * (1 + math.cos(math.pi * (s - warmup) / (steps - warmup)))
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=cfg["smoothing"])
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        meter = 0.0
        bar = tqdm(train_loader, desc=f"epoch {epoch}/{cfg['epochs']}", ncols=90)
        for i, (x, y) in enumerate(bar, 1):
            x, y = x.clone().to(device), y.to(device)
            x, target = mixup(erase(x), y, cfg["alpha"])
            loss = criterion(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            meter += loss.item()
            bar.set_postfix(loss=f"{meter / i:.3f}")
        model.eval()
        val_loss = correct = 0
        with torch.no_grad():
            for x, y in val_loader:
                logits = model(x.to(device))
                val_loss += F.cross_entropy(logits, y.to(device), reduction="sum").item()
                correct += (logits.argmax(1).cpu() == y).sum().item()
        print(f"train loss {meter / len(train_loader):.4f}  val loss {val_loss / cfg['val']:.4f}  val acc {correct / cfg['val']:.4f}")


if __name__ == "__main__":
    main()
