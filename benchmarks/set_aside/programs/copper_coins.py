"""Mint of copper coins from small photos.

As always: first see whether the network can learn one single batch by heart, then train for real.
"""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

MINTS = 8
CHECK_STEPS = 400
EPOCHS = 150


class Coins(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.mint = rng.integers(0, MINTS, n)
        self.angle = rng.uniform(0, 2 * np.pi, n)
        self.noise_seed = rng.integers(0, 2**31, n)
        yy, xx = np.mgrid[-1:1:36j, -1:1:36j]
        self.radius, self.theta = np.hypot(yy, xx), np.arctan2(yy, xx)

    def __len__(self):
        return len(self.mint)

    def __getitem__(self, i):
        m = self.mint[i]
        rng = np.random.default_rng(self.noise_seed[i])
        image = np.cos((m % 4 + 2) * (self.theta + self.angle[i])) * np.exp(-(((self.radius - 0.3 - 0.3 * (m // 4)) / 0.2) ** 2))
        image = image * (self.radius < 0.95) + rng.normal(0, 1.2, image.shape)
        return torch.tensor(image[None], dtype=torch.float32), int(m)


def make_net():
    c = [1, 16, 32, 64]
    layers = []
    for i, o in zip(c, c[1:]):
        layers += [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, MINTS))


def run_batch(net, opt, x, y):
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item(), (out.argmax(1) == y).float().mean().item()


def sanity_check(loader):
    x, y = next(iter(loader))
    net = make_net()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(CHECK_STEPS):
        loss, acc = run_batch(net, opt, x, y)
        if step % 10 == 0:
            print(f"[check] step {step} loss {loss:.5f} acc {acc:.2f}")
    assert loss < 0.2, "cannot even overfit one batch"
    print("[check] ok")


def main():
    torch.manual_seed(5)
    train = DataLoader(Coins(3200, 0), batch_size=32, shuffle=True)
    valid = DataLoader(Coins(480, 1), batch_size=96)
    sanity_check(train)
    net = make_net()
    opt = torch.optim.Adam(net.parameters(), lr=4e-4, weight_decay=1e-4)
    for epoch in range(EPOCHS):
        net.train()
        for step, (x, y) in enumerate(train):
            loss, acc = run_batch(net, opt, x, y)
            if step % 20 == 0:
                print(f"[train] epoch {epoch} step {step} loss {loss:.5f} acc {acc:.2f}")
        net.eval()
        with torch.no_grad():
            hits = sum((net(x).argmax(1) == y).sum().item() for x, y in valid)
        print(f"[valid] epoch {epoch} acc {hits / len(valid.dataset):.3f}")


if __name__ == "__main__":
    main()
