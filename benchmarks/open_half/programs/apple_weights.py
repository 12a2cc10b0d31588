"""Weights of apples from their colour, shape and orchard (a table with 20 columns)."""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, random_split


class Apples(Dataset):
    """Rows of a table, with numbers that are already standardized."""

    def __init__(self, n: int = 60000) -> None:
        rng = np.random.default_rng(12)
        x = rng.normal(size=(n, 20)).astype("float32")
        grams = 160 + 25 * x[:, 0] + 15 * x[:, 1] * x[:, 2] + 12 * np.tanh(x[:, 3:8].sum(1)) + rng.normal(size=n) * 5
        self.x = torch.from_numpy(x)
        self.y = torch.from_numpy(((grams - grams.mean()) / grams.std()).astype("float32"))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.x[i], self.y[i]


class Net(nn.Module):
    """A perceptron with batch normalization."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [20] + [hidden] * layers
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()) for a, b in pairwise(sizes)))
        self.out = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the standardized weight."""
        return self.out(self.layers(x))


def evaluate(model: nn.Module, loader: DataLoader, device: str) -> float:
    """Return the mean squared error."""
    model.eval()
    total, rows = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            total += nn.functional.mse_loss(model(x), y).item() * len(x)
            rows += len(x)
    model.train()
    return total / rows


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=200)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(42)
    train, val = random_split(Apples(), [0.95, 0.05])
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, args.batch_size)
    model = Net(args.hidden, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.MSELoss()
    print(f"{len(train)} apples for training, {len(val)} for validation, on {device}")
    for epoch in range(1, args.epochs + 1):
        running = 0.0
        for i, (x, y) in enumerate(train_loader, 1):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
            if i % 20 == 0:
                print(f"[{epoch}, {i:5d}] loss: {running / 20:.3f}", flush=True)
                running = 0.0
        print(f"epoch {epoch}: val mse {evaluate(model, val_loader, device):.3f}", flush=True)


if __name__ == "__main__":
    main()
