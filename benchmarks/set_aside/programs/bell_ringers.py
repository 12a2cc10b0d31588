"""Which bell rang?  How sure is the model?  After each short round the answer is asked for 120 times, with dropout on:
calibration is what this study is about, and takes longer than the training."""
import time

import torch
from torch import nn

BELLS, ASKED = 12, 120


def strokes(n, g):
    y = torch.randint(0, BELLS, (n,), generator=g)
    t = torch.arange(800) / 800
    f = 40 * 2 ** (y[:, None] / 12)
    x = sum(torch.exp(-3 * t) * torch.sin(6.283 * f * h * t) / (i + 1) for i, h in enumerate((1, 2, 2.4, 3)))
    return x + 3 * torch.randn(n, 800, generator=g), y


class Bells(nn.Module):
    def __init__(self, p=0.3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(800, 384), nn.ReLU(), nn.Dropout(p), nn.Linear(384, 384), nn.ReLU(), nn.Dropout(p), nn.Linear(384, BELLS))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def calibration(model, x, y):
    p = torch.zeros(len(x), BELLS)
    for _ in range(ASKED):
        for i in range(0, len(x), 128):
            p[i : i + 128] += model(x[i : i + 128]).softmax(1) / ASKED
    sure, answer = p.max(1)
    right = (answer == y).float()
    ece = 0.0
    for lo in torch.arange(0, 1, 0.1).tolist():
        inside = (sure > lo) & (sure <= lo + 0.1)
        if inside.any():
            ece += inside.float().mean().item() * abs(right[inside].mean().item() - sure[inside].mean().item())
    return right.mean().item(), ece


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(3)
    held = strokes(640, torch.Generator().manual_seed(4))
    model = Bells()
    opt = torch.optim.AdamW(model.parameters(), 2e-4)
    start, rounds = time.time(), 0
    while time.time() - start < 220:
        rounds += 1
        for step in range(1, 151):
            x, y = strokes(32, g)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 50 == 0:
                print(f"round {rounds} step {step}: loss {loss.item():.4f}", flush=True)
        tick = time.time()
        acc, ece = calibration(model, *held)
        print(f"round {rounds}: accuracy {acc:.3f}, calibration error {ece:.4f} ({time.time() - tick:.1f} s for {ASKED} answers each)", flush=True)


main()
