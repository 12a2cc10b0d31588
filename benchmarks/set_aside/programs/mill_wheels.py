"""Wear of mill wheels, heard from their bearings: a residual 1-D network with DDP."""

from __future__ import annotations

import argparse
import logging
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

log = logging.getLogger("mill")


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(c, c, 9, padding=4), nn.GELU(), nn.Conv1d(c, c, 9, padding=4))
        self.norm = nn.GroupNorm(4, c)

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions found."""
        return self.norm(x + self.body(x))


def res1d(channels: int = 32, depth: int = 4, classes: int = 5) -> nn.Module:
    """Return the network of the paper, made smaller."""
    blocks = [Residual(channels) for _ in range(depth)]
    return nn.Sequential(
        nn.Conv1d(2, channels, 15, stride=4), *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


ARCHS = {"res1d": res1d}


def recordings(n: int, seed: int) -> TensorDataset:
    """Return vibrations whose frequency tells the wear."""
    g = torch.Generator().manual_seed(seed)
    wear = torch.randint(0, 5, (n,), generator=g)
    t = torch.arange(1024) / 1024
    phase = torch.rand(n, 2, 1, generator=g) * 6.28
    wave = torch.sin(6.28 * (20 + 6 * wear)[:, None, None] * t + phase)
    return TensorDataset(wave + 1.5 * torch.randn(n, 2, 1024, generator=g), wear)


def main() -> None:
    """Train on all processes that torchrun started."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="res1d", choices=sorted(ARCHS))
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=1000)
    args = parser.parse_args()
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    torch.set_num_threads(1)
    cards = torch.cuda.device_count()
    device = torch.device(f"cuda:{local_rank % cards}" if cards else "cpu")
    dist.init_process_group("nccl" if cards else "gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(ARCHS[args.arch]().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    data = recordings(2400, 1)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, args.batch, sampler=sampler)
    log.info("%d recordings, %d processes, device of the first: %s", len(data), dist.get_world_size(), device)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        hits = seen = 0
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += int((out.argmax(1) == y).sum())
            seen += len(y)
            if i % 10 == 0:
                log.info("[%d][%d/%d] loss %.4f acc %.3f", epoch, i, len(loader), loss.item(), hits / seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
