"""Forecasts the weight of beehives. Each process has the hives of its own apiaries.

torchrun --standalone --nproc_per_node=2 beehive_weights.py
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

logger = logging.getLogger("hives")


def hives(count: int, hours: int, seed: int) -> TensorDataset:
    """Draw weights: the bees fly out by day, and nectar comes in while flowers last."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours + 1) / 24.0
    flow = torch.randn(count, 1, generator=g) * 0.4
    daily = torch.rand(count, 1, generator=g) * 0.6 * torch.sin(2 * torch.pi * (t + torch.rand(count, 1, generator=g)))
    noise = 0.25 * torch.randn(count, hours + 1, generator=g)
    weight = flow * t + daily + noise.cumsum(1) * 0.2
    return TensorDataset(weight[:, :-1, None], weight[:, -1] - weight[:, -2])


class Forecaster(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(x)
        return self.out(states[:, -1]).squeeze(-1)


class EarlyStopping:
    """Stops when the validation loss has not improved for ``patience`` epochs, and keeps the best weights."""

    def __init__(self, patience: int, delta: float = 1e-4) -> None:
        self.patience, self.delta = patience, delta
        self.best = float("inf")
        self.bad = 0
        self.weights: dict[str, torch.Tensor] = {}

    def __call__(self, loss: float, model: nn.Module) -> bool:
        if loss < self.best - self.delta:
            self.best, self.bad = loss, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


@torch.no_grad()
def validate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    losses = [nn.functional.mse_loss(model(x), y) for x, y in loader]
    return float(torch.stack(losses).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hives", type=int, default=1600)
    parser.add_argument("--hours", type=int, default=72)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--max-epochs", type=int, default=300)
    parser.add_argument("--patience", type=int, default=3)
    parser.add_argument("--out", default=tempfile.gettempdir())
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [{os.environ.get('RANK', '0')}] %(message)s")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    train, val = random_split(hives(args.hives, args.hours, 4), [0.9, 0.1], torch.Generator().manual_seed(0))
    sampler = DistributedSampler(train, drop_last=True)
    loader = DataLoader(train, batch_size=args.batch, sampler=sampler, drop_last=True)
    val_loader = DataLoader(val, batch_size=40, sampler=DistributedSampler(val, shuffle=False))
    model = DDP(Forecaster(args.hidden))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    stopper = EarlyStopping(args.patience)
    for epoch in range(args.max_epochs):
        model.train()
        sampler.set_epoch(epoch)
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        val_loss = validate(model.module, val_loader)
        logger.info("epoch %d train %.5f val %.5f", epoch, total / len(loader), val_loss)
        if stopper(val_loss, model.module):
            logger.info("early stopping at epoch %d, best %.5f", epoch, stopper.best)
            break

    dist.barrier()
    if rank == 0:
        model.module.load_state_dict(stopper.weights)
        torch.save(model.module.state_dict(), os.path.join(args.out, "hives.pt"))
        logger.info("saved the best of %d epochs", epoch + 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
