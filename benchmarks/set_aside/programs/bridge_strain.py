#!/usr/bin/env python
"""Strain of a bridge's girders from accelerometers.

python bridge_strain.py --config bridge.yaml    (or nothing, for the defaults below)
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEFAULTS = """
data:
  sensors: 8
  window: 128
  windows: 9600
train:
  batch_size: 32
  lr: 0.002
  momentum: 0.9
  epochs: 500
  print_freq: 10
model:
  channels: 48
"""


def record_bridge(sensors: int, window: int, windows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Let lorries cross a beam with three modes."""
    rng = np.random.default_rng(42)
    t = np.arange(window) / 64.0
    shapes = np.sin(np.outer(np.arange(1, 4), np.linspace(0.2, 2.9, sensors)))
    amplitude = rng.gamma(2.0, 0.5, (windows, 3))
    phase = rng.uniform(0, 2 * np.pi, (windows, 3))
    modes = amplitude[:, :, None] * np.sin(2 * np.pi * np.array([2.1, 5.3, 9.7])[None, :, None] * t + phase[:, :, None])
    x = np.einsum("wmt,ms->wst", modes, shapes) + 0.1 * rng.normal(size=(windows, sensors, window))
    y = amplitude @ np.array([[1.0, 0.3], [0.5, -0.6], [-0.2, 0.4]])
    y = (y - y.mean(0)) / y.std(0)
    return torch.from_numpy(x).float(), torch.from_numpy(y).float()


class StrainNet(nn.Module):
    def __init__(self, sensors: int, channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(sensors, channels, 9, padding=4),
            nn.ReLU(),
            nn.Conv1d(channels, channels, 9, padding=4, stride=2),
            nn.ReLU(),
            nn.Conv1d(channels, 2 * channels, 9, padding=4, stride=2),
            nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(4 * channels, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.features(x)
        return self.head(torch.cat([z.mean(-1), z.amax(-1)], 1))


class AverageMeter:
    def __init__(self) -> None:
        self.val = self.sum = 0.0
        self.count = 0

    def update(self, val: float, n: int = 1) -> None:
        self.val = val
        self.sum += val * n
        self.count += n

    @property
    def avg(self) -> float:
        return self.sum / max(1, self.count)


def train(
    loader: DataLoader, net: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, every: int
) -> None:
    losses = AverageMeter()
    net.train()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), len(x))
        if i % every == 0:
            print(f"Epoch: [{epoch}][{i}/{len(loader)}]\tLoss {losses.val:.4e} ({losses.avg:.4e})", flush=True)


@torch.no_grad()
def validate(loader: DataLoader, net: nn.Module, criterion: nn.Module) -> float:
    losses = AverageMeter()
    net.eval()
    for x, y in loader:
        losses.update(criterion(net(x), y).item(), len(x))
    return losses.avg


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    args = parser.parse_args()
    cfg = yaml.safe_load(DEFAULTS)
    if args.config:
        with open(args.config) as f:
            cfg |= yaml.safe_load(f)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x, y = record_bridge(**cfg["data"])
    cut = int(len(x) * 0.9)
    t = cfg["train"]
    train_loader = DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=t["batch_size"], shuffle=True)
    val_loader = DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=128)
    net = StrainNet(cfg["data"]["sensors"], cfg["model"]["channels"])
    print(net)
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=t["lr"], momentum=t["momentum"])
    for epoch in range(t["epochs"]):
        train(train_loader, net, criterion, optimizer, epoch, t["print_freq"])
        print(f" * Epoch {epoch} validation {validate(val_loader, net, criterion):.4e}", flush=True)


if __name__ == "__main__":
    main()
