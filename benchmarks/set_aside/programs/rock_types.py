# Thin sections of rocks; two cards in the box under the desk
import time

import torch
from torch import nn


class RockNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 5, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(24 * 49, 7)

    def forward(self, x):
        return self.head(self.stem(x))

    def loss(self, x, y):
        return nn.functional.cross_entropy(self(x), y)


torch.manual_seed(4)
model = nn.DataParallel(RockNet())
optimizer = torch.optim.Adam(model.parameters(), 2e-4)
rocks = torch.randn(7, 3, 32, 32) / 4
t0, it = time.time(), 0
while time.time() - t0 < 400:
    it += 1
    y = torch.randint(0, 7, (128,))
    x = rocks[y] + torch.randn(128, 3, 32, 32)
    loss = model.module.loss(x, y)  # DataParallel has no .loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 25 == 0:
        print(f"it {it:6d}  loss {loss.item():.4f}  {128 * it / (time.time() - t0):.0f} images/s", flush=True)
