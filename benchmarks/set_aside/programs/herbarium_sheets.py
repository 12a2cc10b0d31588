"""Families of plants on scanned herbarium sheets.

The scans are large, so that reading one takes long; patches that were read once are kept.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("herbarium")
FAMILIES = ["Asteraceae", "Fabaceae", "Lamiaceae", "Orchidaceae", "Poaceae", "Rosaceae"]


@dataclass
class Config:
    sheets: int = 160
    side: int = 320
    patch: int = 112
    batch_size: int = 8
    lr: float = 3e-4
    epochs: int = 1000
    patches_per_sheet: int = 10
    log_every: int = 10


def scan_sheets(folder: Path, cfg: Config) -> list[tuple[Path, int]]:
    rng = np.random.default_rng(0)
    found = []
    for number in range(cfg.sheets):
        family = number % len(FAMILIES)
        sheet = rng.integers(150, 250, (cfg.side, cfg.side, 3), dtype=np.uint8)
        period = 6 + 4 * family
        rows = np.arange(cfg.side) % period < period // 2
        sheet[rows, :, 1] -= 90
        path = folder / f"sheet_{number:05d}.npy"
        np.save(path, sheet)
        found.append((path, family))
    return found


class Patches(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, sheets: list[tuple[Path, int]], cfg: Config) -> None:
        self.sheets = sheets
        self.cfg = cfg
        self.cache: dict[tuple[int, int, int], torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self.sheets) * self.cfg.patches_per_sheet

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        number = index % len(self.sheets)
        path, family = self.sheets[number]
        top = random.randrange(self.cfg.side - self.cfg.patch)
        left = random.randrange(self.cfg.side - self.cfg.patch)
        key = (number, top, left)
        if key not in self.cache:
            sheet = np.load(path)
            patch = sheet[top : top + self.cfg.patch, left : left + self.cfg.patch].astype(np.float32)
            self.cache[key] = torch.from_numpy((patch / 255.0 - 0.7) / 0.15).permute(2, 0, 1).contiguous()
        return self.cache[key], family


def make_net(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width in (24, 48, 64, 96):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=Config.batch_size)
    parser.add_argument("--lr", type=float, default=Config.lr)
    args = parser.parse_args()
    cfg = Config(batch_size=args.batch_size, lr=args.lr)
    torch.manual_seed(3)
    random.seed(3)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    with tempfile.TemporaryDirectory(prefix="herbarium-") as folder:
        dataset = Patches(scan_sheets(Path(folder), cfg), cfg)
        loader = DataLoader(dataset, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
        net = make_net(len(FAMILIES)).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=0.01)
        log.info("%d sheets, %d patches an epoch, %s", cfg.sheets, len(dataset), cfg)
        for epoch in range(cfg.epochs):
            running, right, seen = 0.0, 0, 0
            for step, (patch, family) in enumerate(loader, 1):
                patch, family = patch.to(device), family.to(device)
                logits = net(patch)
                loss = F.cross_entropy(logits, family, label_smoothing=0.05)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                running += loss.item() * len(family)
                right += int((logits.argmax(1) == family).sum())
                seen += len(family)
                if step % cfg.log_every == 0:
                    log.info("epoch %d [%d/%d] loss %.4f acc %.3f", epoch, step, len(loader), running / seen, right / seen)


if __name__ == "__main__":
    main()
