"""Which pasta is it? A small residual network on photographs of single noodles."""

from __future__ import annotations

import argparse
import math
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

SHAPES = ("farfalle", "fusilli", "penne", "rigatoni", "orecchiette", "conchiglie", "tagliatelle", "stelline")


def photograph(count: int, size: int, seed: int) -> TensorDataset:
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(len(SHAPES), (count,), generator=g)
    axis = torch.linspace(-1, 1, size)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    turn = torch.rand(count, 1, 1, generator=g) * 2 * math.pi
    radius, angle = (x**2 + y**2).sqrt(), torch.atan2(y, x)
    petals = (label + 2).view(-1, 1, 1)
    outline = (radius < 0.55 + 0.25 * torch.cos(petals * (angle + turn))).float()
    durum = torch.stack([0.9 - 0.02 * label, 0.8 - 0.05 * label, 0.2 + 0.07 * label], 1)
    image = outline[:, None] * durum[:, :, None, None]
    return TensorDataset(image + 0.35 * torch.randn(count, 3, size, size, generator=g), label)


class Residual(nn.Module):
    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Dropout2d(dropout),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


class PastaNet(nn.Module):
    def __init__(self, width: int = 24, dropout: float = 0.2) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.stages = nn.Sequential(Residual(width, dropout), nn.MaxPool2d(2), Residual(width, dropout))
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(width, len(SHAPES))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.drop(self.stages(self.stem(x)).mean((2, 3))))


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> tuple[float, float]:
    model.eval()
    loss, right, seen = 0.0, 0, 0
    for image, label in loader:
        logits = model(image.to(device))
        loss += nn.functional.cross_entropy(logits, label.to(device), reduction="sum").item()
        right += int((logits.argmax(1).cpu() == label).sum())
        seen += len(label)
    return loss / seen, right / seen


def train_one_epoch(
    model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device, epoch: int, every: int
) -> float:
    total = 0.0
    for step, (image, label) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(image.to(device)), label.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
        if step % every == 0:
            print(f"epoch {epoch:3d} step {step:4d}/{len(loader)} loss {loss.item():.4f}", flush=True)
    return total / len(loader)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", type=int, default=4000)
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--epochs", type=int, default=500)
    args = parser.parse_args()
    torch.manual_seed(8)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_loader = DataLoader(photograph(args.photos, args.size, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(photograph(400, args.size, 1), batch_size=100)
    model = PastaNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)

    model.train()
    loss, accuracy = evaluate(model, val_loader, device)
    print(f"before training: val loss {loss:.4f}, accuracy {accuracy:.1%}", flush=True)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        began = time.perf_counter()
        train_loss = train_one_epoch(model, train_loader, optimizer, device, epoch, every=10)
        loss, accuracy = evaluate(model, val_loader, device)
        best = max(best, accuracy)
        took = time.perf_counter() - began
        print(
            f"epoch {epoch} done in {took:.0f} s: train {train_loss:.4f} val {loss:.4f} acc {accuracy:.1%} best {best:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
