"""Faults in the glaze of tiles: a head on a pretrained trunk, which stays as it is."""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

FAULTS = ["none", "crack", "pinhole", "crawl", "blister"]


class Glazes(Dataset):
    """Pictures of 48 by 48; each fault has its own texture."""

    def __init__(self, n: int, first: int = 0) -> None:
        self.n, self.first = n, first
        g = torch.Generator().manual_seed(40)
        self.textures = nn.functional.interpolate(torch.randn(len(FAULTS), 3, 16, 16, generator=g), size=(48, 48))

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        g = torch.Generator().manual_seed(self.first + i)
        label = int(torch.randint(0, len(FAULTS), (), generator=g))
        shift = tuple(torch.randint(0, 48, (2,), generator=g).tolist())
        return 0.9 * self.textures[label].roll(shift, (1, 2)) + 0.7 * torch.randn(3, 48, 48), label


def trunk(width: int, weights: str | None) -> nn.Module:
    """Return the trunk of the catalogue's model; without its weights (they are not public) as it was initialized."""
    layers: list[nn.Module] = []
    c = 3
    for n in (width, 2 * width, 4 * width):
        layers += [
            nn.Conv2d(c, n, 3, padding=1),
            nn.BatchNorm2d(n),
            nn.ReLU(),
            nn.Conv2d(n, n, 3, 2, 1),
            nn.BatchNorm2d(n),
            nn.ReLU(),
        ]
        c = n
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
    if weights:
        net.load_state_dict(torch.load(weights, map_location="cpu"))
    return net.eval().requires_grad_(False)


class Tagger(nn.Module):
    """The trunk and a new head."""

    def __init__(self, backbone: nn.Module, features: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(
            nn.BatchNorm1d(features), nn.Linear(features, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 5)
        )

    def train(self, mode: bool = True) -> Tagger:
        """Only the head trains: the trunk keeps its statistics."""
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


@torch.no_grad()
def validate(model: Tagger, loader: DataLoader, device: str) -> tuple[float, float]:
    """Return loss and accuracy."""
    model.eval()
    total = right = 0.0
    for x, y in loader:
        scores = model(x.to(device)).cpu()
        total += nn.functional.cross_entropy(scores, y, reduction="sum").item()
        right += (scores.argmax(1) == y).sum().item()
    model.train()
    return total / len(loader.dataset), right / len(loader.dataset)


def main() -> None:
    """Train the head."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default=None)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--epochs", type=int, default=300)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(6)
    model = Tagger(trunk(args.width, args.weights), 16 * args.width).to(device)
    model.train()
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"trainable: {trainable:,} of {sum(p.numel() for p in model.parameters()):,}", flush=True)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=args.lr)
    train = DataLoader(Glazes(4800), args.batch, shuffle=True)
    val = DataLoader(Glazes(480, first=10**6), 48)
    for epoch in range(args.epochs):
        began = time.time()
        for i, (x, y) in enumerate(train):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 10 == 0:
                print(f"epoch {epoch} [{i * args.batch}/{len(train.dataset)}] train loss {loss.item():.4f}", flush=True)
        val_loss, accuracy = validate(model, val, device)
        print(f"epoch {epoch} val loss {val_loss:.4f} acc {accuracy:.3f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
