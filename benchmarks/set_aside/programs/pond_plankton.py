"""Plankton of a pond: features of a frozen network are computed once and kept, then a head is trained on them."""

from __future__ import annotations

import argparse
import logging
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(format="%(levelname).1s %(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
CLASSES = ("copepod", "daphnia", "rotifer", "diatom", "volvox", "cyclops", "nauplius")


@dataclass
class Options:
    specimens: int = 4800
    side: int = 64
    batch: int = 16
    head_batch: int = 256
    width: int = 1024
    lr: float = 5e-4
    epochs: int = 5000
    seed: int = 21


def micrograph(index: int, side: int) -> tuple[np.ndarray, int]:
    rng = np.random.default_rng(index)
    label = int(rng.integers(len(CLASSES)))
    yy, xx = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    wave = np.cos((3 + 2 * label) * np.hypot(xx, yy * (1 + 0.3 * label)) + rng.uniform(0, 6.28))
    return (wave + rng.normal(0, 1.2, (side, side))).astype(np.float32), label


class Backbone(nn.Module):
    """Stands for the network of the institute; the weights that come with the repository are these."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1234)
        layers: list[nn.Module] = []
        channels = 1
        for width in (32, 64, 96):
            layers += [nn.Conv2d(channels, width, 5, padding=2), nn.BatchNorm2d(width), nn.ReLU(), nn.AvgPool2d(2)]
            channels = width
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).flatten(1)


@torch.no_grad()
def extract(options: Options, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    backbone = Backbone().to(device).eval().requires_grad_(False)
    features, labels = [], []
    began = time.time()
    for start in range(0, options.specimens, options.batch):
        images, batch_labels = zip(*(micrograph(i, options.side) for i in range(start, start + options.batch)), strict=True)
        features.append(backbone(torch.from_numpy(np.stack(images))[:, None].to(device)).cpu())
        labels += batch_labels
        if start % (options.batch * 20) == 0:
            kept = sum(f.numel() * 4 for f in features) / 2**20
            logging.info(
                "features %d/%d, %.0f MiB kept, %.0f s", start + options.batch, options.specimens, kept, time.time() - began
            )
    return torch.cat(features), torch.tensor(labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=Options.lr)
    parser.add_argument("--specimens", type=int, default=Options.specimens)
    arguments = parser.parse_args()
    options = Options(lr=arguments.lr, specimens=arguments.specimens)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    features, labels = extract(options, device)
    torch.manual_seed(options.seed)
    cut = int(0.85 * len(features))
    mean, std = features[:cut].mean(0), features[:cut].std(0) + 1e-3
    head = nn.Sequential(
        nn.Dropout(0.3),
        nn.Linear(features.shape[1], options.width),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(options.width, len(CLASSES)),
    ).to(device)
    optimizer = torch.optim.AdamW(head.parameters(), lr=options.lr, weight_decay=0.1)
    for epoch in range(options.epochs):
        head.train()
        total = 0.0
        for chosen in torch.randperm(cut).split(options.head_batch):
            x = ((features[chosen] - mean) / std).to(device)
            loss = F.cross_entropy(head(x), labels[chosen].to(device), label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        head.eval()
        with torch.no_grad():
            right = (head(((features[cut:] - mean) / std).to(device)).argmax(1).cpu() == labels[cut:]).float().mean()
        logging.info("head epoch %d: loss %.4f, validation accuracy %.3f", epoch, total / cut, right)


if __name__ == "__main__":
    main()
