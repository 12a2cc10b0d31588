"""Shapes under noise, easy ones first. The next level begins when the last one is mastered, or after 400 steps."""
import time
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Level:
    noise: float
    shapes: int


LEVELS = [Level(0.2, 3), Level(0.6, 4), Level(1.0, 5), Level(1.4, 6), Level(1.8, 7), Level(2.2, 8), Level(2.4, 9), Level(2.6, 10)]


def batch(level, n=48, size=28):
    y = torch.randint(0, level.shapes, (n,))
    g = torch.linspace(-1, 1, size)
    r, a = (g[:, None] ** 2 + g[None] ** 2).sqrt(), torch.atan2(g[:, None].expand(size, size), g[None].expand(size, size))
    edge = 0.6 + 0.2 * torch.cos((y.view(-1, 1, 1) + 1) * a + 6.28 * torch.rand(n, 1, 1))
    return ((r < edge).float() - 0.5 + level.noise * torch.randn(n, size, size)).unsqueeze(1), y


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 24, 5, padding=2), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 5, padding=2), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 49, 10))
    opt = torch.optim.Adam(net.parameters(), 7e-4)
    start, step = time.time(), 0
    for number, level in enumerate(LEVELS, 1):
        print(f"--- level {number} of {len(LEVELS)}: {level.shapes} shapes, noise {level.noise} (expect a higher loss at first)", flush=True)
        mastered = 0.0
        for i in range(400):
            x, y = batch(level)
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            mastered = 0.95 * mastered + 0.05 * (out.argmax(1) == y).float().mean().item()
            if step % 10 == 0:
                print(f"level {number} step {step:5d} loss {loss.item():.4f} acc {mastered:.3f}", flush=True)
            if time.time() - start > 210:
                return
            if mastered > 0.93 and i > 100:
                break
    print("all levels done", flush=True)


if __name__ == "__main__":
    main()
