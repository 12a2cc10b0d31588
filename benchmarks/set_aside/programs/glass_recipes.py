"""Colour and melting point of glass from its recipe: two tasks on one trunk.

torchrun --standalone --nproc_per_node=2 glass_recipes.py
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
import yaml
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CONFIG: dict[str, Any] = yaml.safe_load("""
model: {oxides: 18, width: 512, depth: 4, colours: 9}
loss: {colour: 1.0, melting: 0.0}
optim: {lr: 0.001, weight_decay: 0.01, batch: 64}
epochs: 1000
""")


class Trunk(nn.Module):
    """Layers for all tasks."""

    def __init__(self, oxides: int, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(oxides, width)
        self.rest = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """Return features of the recipe."""
        x = self.first(x)
        for layer in self.rest:
            x = x + layer(x)
        return x


class Glass(nn.Module):
    """A trunk with a head for each task."""

    def __init__(self, oxides: int, width: int, depth: int, colours: int) -> None:
        super().__init__()
        self.trunk = Trunk(oxides, width, depth)
        self.colour = nn.Linear(width, colours)
        self.melting = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return what each head says."""
        h = self.trunk(x)
        return {"colour": self.colour(h), "melting": self.melting(h).squeeze(1)}


def recipes(n: int, oxides: int, colours: int) -> TensorDataset:
    """Return recipes, their colours and melting points."""
    g = torch.Generator().manual_seed(8)
    x = torch.rand(n, oxides, generator=g) ** 3
    w = torch.randn(oxides, colours + 1, generator=g)
    y = x @ w
    return TensorDataset(x, y[:, :colours].argmax(1), y[:, colours])


def losses(out: dict[str, Tensor], colour: Tensor, melting: Tensor) -> dict[str, Tensor]:
    """Return the losses of those tasks that have a weight."""
    weights = CONFIG["loss"]
    found = {}
    if weights["colour"] > 0:
        found["colour"] = weights["colour"] * functional.cross_entropy(out["colour"], colour)
    if weights["melting"] > 0:
        found["melting"] = weights["melting"] * functional.mse_loss(out["melting"], melting)
    return found


def main() -> None:
    """Train all tasks together."""
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = Glass(**CONFIG["model"]).to(device)
    if rank == 0:
        print(yaml.safe_dump(CONFIG), f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    model = DistributedDataParallel(model)
    optim = CONFIG["optim"]
    optimizer = torch.optim.AdamW(model.parameters(), optim["lr"], weight_decay=optim["weight_decay"])
    data = recipes(20000, CONFIG["model"]["oxides"], CONFIG["model"]["colours"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, optim["batch"], sampler=sampler)
    for epoch in range(CONFIG["epochs"]):
        sampler.set_epoch(epoch)
        for step, (x, colour, melting) in enumerate(loader):
            parts = losses(model(x.to(device)), colour.to(device), melting.to(device))
            optimizer.zero_grad()
            torch.stack(list(parts.values())).sum().backward()
            optimizer.step()
            if rank == 0 and step % 20 == 0:
                print(f"e{epoch} s{step}", {name: round(part.item(), 4) for name, part in parts.items()}, flush=True)


if __name__ == "__main__":
    main()
