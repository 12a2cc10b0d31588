"""One configuration per process. No communication: torchrun only starts them.

torchrun --nproc-per-node 2 widths_and_rates.py --width 384
"""
from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    lr: float
    dropout: float
    weight_decay: float = 1e-4


GRID = [Config(3e-4, 0.1), Config(1e-3, 0.1), Config(3e-4, 0.3), Config(1e-3, 0.3)]


def data(seed: int = 0, n: int = 16384) -> TensorDataset:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 48, generator=g)
    y = torch.sin(x[:, :8].sum(1)) + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(x, y[:, None])


def build(cfg: Config, width: int) -> nn.Module:
    def block() -> list[nn.Module]:
        return [nn.Linear(width, width), nn.ReLU(), nn.Dropout(cfg.dropout)]

    return nn.Sequential(nn.Linear(48, width), nn.ReLU(), *block(), *block(), nn.Linear(width, 1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=384)
    args = parser.parse_args()
    number = int(os.environ.get("LOCAL_RANK", 0))
    cfg = GRID[number]
    torch.manual_seed(42)
    model = build(cfg, args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    loader = DataLoader(data(), batch_size=256, shuffle=True)
    for epoch in range(5000):
        total = 0.0
        for i, (x, y) in enumerate(loader):
            loss: Tensor = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
            if i % 16 == 0:
                print(f"config {number} | epoch {epoch} | {i:3d}/{len(loader)} | mse {loss.item():.4f}", flush=True)
        print(json.dumps({**asdict(cfg), "epoch": epoch, "mse": total / len(loader)}), flush=True)


if __name__ == "__main__":
    main()
