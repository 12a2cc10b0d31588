"""Moths by their wings. Small pictures first, larger ones later, as in fastai's courses."""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

SCHEDULE = ((32, 400), (48, 300), (64, 200), (96, 100_000))
"""The side of the pictures, and for how many steps."""
GENERA = 10


class Moths:
    def __init__(self, seed: int) -> None:
        self.g = torch.Generator().manual_seed(seed)
        self.patterns = F.interpolate(torch.randn(GENERA, 3, 12, 12, generator=torch.Generator().manual_seed(0)), size=(96, 96))

    def batch(self, size: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
        genus = torch.randint(GENERA, (size,), generator=self.g)
        picture = F.interpolate(self.patterns[genus], size=(side, side), mode="bilinear", align_corners=False)
        shift = int(torch.randint(side // 4, (1,), generator=self.g))
        picture = picture.roll(shift, -1) * (0.4 + 0.6 * torch.rand(size, 1, 1, 1, generator=self.g))
        return picture + 1.2 * torch.randn(size, 3, side, side, generator=self.g), genus


def conv(a: int, b: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bs", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    w = args.width
    net = nn.Sequential(
        conv(3, w, 1),
        conv(w, w, 2),
        conv(w, 2 * w, 2),
        conv(2 * w, 2 * w, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * w, GENERA),
    ).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.02)
    train, valid = Moths(1), Moths(2)

    for side, steps in SCHEDULE:
        for group in opt.param_groups:
            group["lr"] = args.lr * (1.0 if side == SCHEDULE[0][0] else 0.5)
        print(f"-- size {side}x{side}, {steps} steps", flush=True)
        began, smooth = time.time(), None
        for step in range(1, steps + 1):
            net.train()
            picture, genus = train.batch(args.bs, side)
            loss = F.cross_entropy(net(picture.to(device)), genus.to(device), label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            opt.step()
            smooth = loss.item() if smooth is None else 0.95 * smooth + 0.05 * loss.item()
            if step % 20 == 0:
                print(f"{side}px {step:5d} loss {smooth:.4f} {step * args.bs / (time.time() - began):.0f} img/s", flush=True)
            if step % 200 == 0:
                net.eval()
                with torch.no_grad():
                    picture, genus = valid.batch(128, side)
                    right = (net(picture.to(device)).argmax(1).cpu() == genus).float().mean()
                print(f"{side}px {step:5d} valid accuracy {right:.3f}", flush=True)


if __name__ == "__main__":
    main()
