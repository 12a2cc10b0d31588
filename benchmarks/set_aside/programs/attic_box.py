"""Bird feeder, trained in the attic. The box has no fan: it works for 20 s and rests for 8 s (see --work and --rest)."""
import argparse
import time

import torch
from torch import nn


def feeder(n, size=32):
    bird = torch.randint(0, 6, (n,))
    g = torch.linspace(-1, 1, size)
    body = torch.exp(-((g[None, :, None] * (1 + bird.view(-1, 1, 1) / 3)) ** 2 + (g[None, None] - 0.2 * torch.randn(n, 1, 1)) ** 2) * 6)
    color = torch.eye(3)[bird % 3].view(n, 3, 1, 1) + 0.3
    return body.unsqueeze(1) * color + 0.4 * torch.randn(n, 3, size, size), bird


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", type=float, default=20)
    ap.add_argument("--rest", type=float, default=8)
    ap.add_argument("--total", type=float, default=205)
    a = ap.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.SiLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 6))
    opt = torch.optim.AdamW(net.parameters(), 3e-4)
    start = turn = time.time()
    step = 0
    while time.time() - start < a.total:
        x, y = feeder(48)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if time.time() - turn > a.work:
            print(f"resting for {a.rest:.0f} s, as planned", flush=True)
            time.sleep(a.rest)
            turn = time.time()


if __name__ == "__main__":
    main()
