"""Release gate for the meter reader: how does the accuracy suffer from dirt, blur, ... ? Trains the candidate shortly first."""
import argparse
import csv
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DIGITS = torch.tensor(
    [
        [7, 5, 5, 5, 7], [2, 6, 2, 2, 7], [7, 1, 7, 4, 7], [7, 1, 7, 1, 7], [5, 5, 7, 1, 1],
        [7, 4, 7, 1, 7], [7, 4, 7, 5, 7], [7, 1, 1, 1, 1], [7, 5, 7, 5, 7], [7, 5, 7, 1, 7],
    ]
)  # fmt: skip


def glyphs():
    bits = (DIGITS[:, :, None] >> torch.tensor([2, 1, 0])) & 1
    return F.interpolate(bits.float()[:, None], size=(20, 12))


def pictures(n, g):
    y = torch.randint(0, 10, (n,), generator=g)
    x = torch.zeros(n, 1, 32, 32)
    base = glyphs()
    for i, k in enumerate(y.tolist()):
        r, c = torch.randint(0, 12, (1,), generator=g).item(), torch.randint(0, 20, (1,), generator=g).item()
        x[i, :, r : r + 20, c : c + 12] = base[k]
    return x + 0.25 * torch.randn(x.shape, generator=g), y


def noise(x, s):
    return x + 0.12 * s * torch.randn_like(x)


def dirt(x, s):
    spots = (torch.rand(len(x), 1, 8, 8) < 0.06 * s).float()
    return x * (1 - F.interpolate(spots, scale_factor=4.0))


def blur(x, s):
    k = 2 * s + 1
    return F.avg_pool2d(x, k, 1, k // 2)


def fog(x, s):
    return x * (1 - 0.15 * s) + 0.15 * s


def glare(x, s):
    xx = torch.linspace(0, 1, 32)
    return x + 0.5 * s * torch.exp(-((xx - torch.rand(len(x), 1, 1, 1)) ** 2) * 40)


CORRUPTIONS = [noise, dirt, blur, fog, glare]


def candidate(seconds, g):
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 96, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(96 * 64, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    end, step = time.time() + seconds, 0
    while time.time() < end:
        x, y = pictures(64, g)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 25 == 0:
            print(f"candidate: step {step} loss {loss.item():.3f}", flush=True)
    return net


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train-seconds", type=float, default=20)
    p.add_argument("--pictures", type=int, default=3000)
    p.add_argument("--repeats", type=int, default=40)
    args = p.parse_args()
    g = torch.Generator().manual_seed(1)
    net = candidate(args.train_seconds, g).eval()
    table = csv.writer(sys.stdout)
    table.writerow(["repeat", "corruption", "severity", "loss", "accuracy"])
    for repeat in range(args.repeats):
        x, y = pictures(args.pictures, g)
        for corrupt in CORRUPTIONS:
            for severity in range(6):
                with torch.inference_mode():
                    out = torch.cat([net(corrupt(part, severity)) for part in x.split(100)])
                loss, acc = F.cross_entropy(out, y), (out.argmax(1) == y).float().mean()
                table.writerow([repeat, corrupt.__name__, severity, f"{loss:.4f}", f"{acc:.4f}"])
                sys.stdout.flush()


main()
