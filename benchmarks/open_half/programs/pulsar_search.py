"""Tells pulsars from interference in folded profiles of one band."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


def fold(count: int, bins: int, channels: int, width: float, g: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw candidates: a pulsar's pulse is at one phase in all channels, interference is in a few channels only."""
    label = torch.randint(2, (count,), generator=g)
    phase = torch.rand(count, 1, 1, generator=g)
    pulse = torch.exp(-(((torch.linspace(0, 1, bins) - phase) / width) ** 2))
    in_channel = torch.where(
        label.view(-1, 1, 1) == 1, torch.ones(count, channels, 1), (torch.rand(count, channels, 1, generator=g) > 0.8) * 2.5
    )
    return pulse * in_channel + torch.randn(count, channels, bins, generator=g), label


def build(channels: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(channels, width, 5, padding=2),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Conv1d(width, width, 5, padding=2, stride=2),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Conv1d(width, width, 5, padding=2, stride=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(width, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--band", choices=["L", "S"], required=True)
    parser.add_argument("--bins", type=int, default=128)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iters", type=int, default=200_000)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.manual_seed(ord(args.band))
    torch.set_num_threads(1)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    print(f"[{args.band}] device {device}, CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)

    out = args.out or Path(tempfile.mkdtemp(prefix=f"pulsars-{args.band}-"))
    out.mkdir(parents=True, exist_ok=True)
    g = torch.Generator().manual_seed(1)
    net = build(args.channels, args.width).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-2)
    pulse_width = {"L": 0.03, "S": 0.015}[args.band]
    recent: list[float] = []
    began = time.time()
    with (out / "log.jsonl").open("w") as log:
        for i in range(1, args.iters + 1):
            x, label = fold(args.batch, args.bins, args.channels, pulse_width, g)
            loss = F.cross_entropy(net(x.to(device)), label.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            recent.append(loss.item())
            if i % 20 == 0:
                mean = sum(recent) / len(recent)
                recent.clear()
                log.write(json.dumps({"iter": i, "loss": mean}) + "\n")
                print(f"[{args.band}] iter {i} loss {mean:.4f} ({i / (time.time() - began):.1f} it/s)", flush=True)
            if i % 2000 == 0:
                torch.save(net.state_dict(), out / "net.pt")


if __name__ == "__main__":
    main()
