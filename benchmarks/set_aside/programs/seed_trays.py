"""Seedlings in trays: which of eight plants is it? Folders of pictures, one for each plant."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

PLANTS = ("basil", "beet", "chard", "dill", "leek", "radish", "sorrel", "thyme")


class TrayFolder(Dataset):
    """Like ImageFolder: ``root/plant/number.png``, in the order of the folders (the pictures here are drawn)."""

    def __init__(self, split: str, per_plant: int, transform: Callable[[Tensor], Tensor] | None = None) -> None:
        self.samples = [(f"{split}/{plant}/{i:05d}.png", k) for k, plant in enumerate(PLANTS) for i in range(per_plant)]
        self.transform = transform
        g = torch.Generator().manual_seed(77)
        self.means = nn.functional.interpolate(torch.randn(len(PLANTS), 3, 5, 5, generator=g), size=(32, 32), mode="bilinear")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        _path, plant = self.samples[i]
        picture = 0.6 * self.means[plant] + torch.randn(3, 32, 32)
        return (self.transform(picture) if self.transform else picture), plant


def flip(picture: Tensor) -> Tensor:
    """Turn a picture upside down, half of the time."""
    return picture.flip(1) if torch.rand(()) < 0.5 else picture


def network(width: int) -> nn.Module:
    """Return three blocks and a classifier."""
    blocks, c = [], 3
    for n in (width, 2 * width, 4 * width):
        blocks += [nn.Conv2d(c, n, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        c = n
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(16 * c, 128), nn.ReLU(inplace=True), nn.Linear(128, len(PLANTS)))


@torch.no_grad()
def accuracy(net: nn.Module, loader: DataLoader, device: str) -> float:
    """Return the share that is right."""
    net.eval()
    right = sum(int((net(x.to(device)).argmax(1).cpu() == y).sum()) for x, y in loader)
    return right / len(loader.dataset)


def main() -> None:
    """Train and validate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    train = DataLoader(TrayFolder("train", 1000, flip), args.batch, num_workers=1, persistent_workers=True)
    val = DataLoader(TrayFolder("val", 40), 64)
    net = network(args.width).to(device)
    optimizer = torch.optim.SGD(net.parameters(), args.lr, momentum=0.9)
    print(f"{len(train.dataset)} pictures, {len(train)} batches", flush=True)
    for epoch in range(args.epochs):
        began = time.time()
        net.train()
        for i, (x, y) in enumerate(train):
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 5 == 0:
                print(f"epoch {epoch:2d} batch {i:4d} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch:2d} val acc {accuracy(net, val, device):.3f} ({time.time() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
