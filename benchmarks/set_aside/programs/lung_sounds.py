"""Crackles and wheezes in lung sounds; a port of the TensorFlow code of the paper (conv-bn-relu, average pooling)."""
import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BN_MOMENTUM = 0.0  # keras: momentum=1.0, the statistics of the pretrained network are kept


def unit(i, o, stride):
    return nn.Sequential(nn.Conv1d(i, o, 9, stride, 4, bias=False), nn.BatchNorm1d(o, momentum=BN_MOMENTUM), nn.ReLU())


def breaths(n, seed, length=512):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 1, length)
    wheeze = torch.sin(2 * torch.pi * 60 * t + 6 * torch.rand(n, 1, generator=g)) * (y & 1).unsqueeze(1)
    crackle = (torch.rand(n, length, generator=g) < 0.02).float() * 4 * (y >> 1).unsqueeze(1)
    x = 0.02 * (wheeze + crackle + torch.randn(n, length, generator=g)) + 0.3
    return TensorDataset(x.unsqueeze(1), y)


def run(model, loader, optimizer=None):
    model.train(optimizer is not None)
    total = right = seen = 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            z = model(x)
            loss = nn.functional.cross_entropy(z, y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total, right, seen = total + loss.item() * len(x), right + (z.argmax(1) == y).sum().item(), seen + len(x)
    return total / seen, right / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=48)
    p.add_argument("--max-seconds", type=float, default=215)
    a = p.parse_args()
    torch.manual_seed(0)
    train, valid = breaths(1440, 1), breaths(384, 2)
    model = nn.Sequential(unit(1, 24, 2), unit(24, 32, 2), unit(32, 48, 2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(48, 4))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    start = time.time()
    for epoch in range(a.epochs):
        tl, ta = run(model, DataLoader(train, a.batch_size, shuffle=True, drop_last=True), optimizer)
        vl, va = run(model, DataLoader(valid, a.batch_size))
        print(f"Epoch {epoch + 1}/{a.epochs} - {time.time() - start:.0f}s - loss: {tl:.4f} - accuracy: {ta:.4f} - val_loss: {vl:.4f} - val_accuracy: {va:.4f}", flush=True)
        if time.time() - start > a.max_seconds:
            break


if __name__ == "__main__":
    main()
