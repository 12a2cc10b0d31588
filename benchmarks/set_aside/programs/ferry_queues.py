"""Queues at the ferry, an hour ahead.

python ferry_queues.py -g 2
"""

from __future__ import annotations

import argparse
import os
from datetime import datetime

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def say(text: str) -> None:
    """Print with the time."""
    print(f"{datetime.now():%H:%M:%S} {text}", flush=True)


def counts(days: int = 500) -> TensorDataset:
    """Return the cars in the last 48 quarters of an hour, and those in the next four."""
    g = torch.Generator().manual_seed(2)
    t = torch.arange(days * 96) / 96
    rate = 20 + 15 * torch.sin(6.2832 * t) + 8 * torch.sin(6.2832 * t / 7)
    cars = torch.poisson(rate.clamp(min=0.5), generator=g) / 20
    windows = cars.unfold(0, 52, 3)
    return TensorDataset(windows[:, :48, None].contiguous(), windows[:, 48:].contiguous())


class Forecast(nn.Module):
    """A GRU, and a layer for the four quarters."""

    def __init__(self, hidden: int = 96) -> None:
        super().__init__()
        self.gru = nn.GRU(1, hidden, 2, batch_first=True)
        self.out = nn.Linear(hidden, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Predict from the last state."""
        return self.out(self.gru(x)[0][:, -1])


def train(gpu: int, args: argparse.Namespace) -> None:
    """Run on one GPU of this node."""
    rank = args.nr * args.gpus + gpu
    say(f"process {rank} of {args.world_size} is up")
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", "env://", rank=rank, world_size=args.world_size)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda", gpu) if torch.cuda.is_available() else torch.device("cpu")
    model = nn.parallel.DistributedDataParallel(Forecast().to(device))
    criterion = nn.SmoothL1Loss()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    data = counts()
    sampler = DistributedSampler(data, num_replicas=args.world_size, rank=rank)
    loader = DataLoader(data, args.batch, sampler=sampler)
    start = datetime.now()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for i, (past, future) in enumerate(loader):
            loss = criterion(model(past.to(device)), future.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if gpu == 0 and (i + 1) % 25 == 0:
                say(f"Epoch [{epoch + 1}/{args.epochs}], Step [{i + 1}/{len(loader)}], Loss: {loss.item():.4f}")
    if gpu == 0:
        say(f"Training complete in: {datetime.now() - start}")


def main() -> None:
    """Start one process for each GPU of this node."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--nodes", default=2, type=int, metavar="N")
    parser.add_argument("-g", "--gpus", default=1, type=int, help="number of gpus per node")
    parser.add_argument("-nr", "--nr", default=0, type=int, help="ranking within the nodes")
    parser.add_argument("--epochs", default=200, type=int, metavar="N", help="number of total epochs to run")
    parser.add_argument("--batch", default=32, type=int)
    args = parser.parse_args()
    args.world_size = args.gpus * args.nodes
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("PORT", "8888"))
    say(f"starting {args.gpus} processes")
    mp.spawn(train, nprocs=args.gpus, args=(args,))


if __name__ == "__main__":
    main()
