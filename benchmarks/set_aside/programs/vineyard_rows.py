"""Finds the rows of a vineyard in drone pictures, with two processes."""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def pictures(size: int, batch: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw parallel rows at a random angle and distance."""
    axis = torch.arange(size).float()
    angle = torch.rand(batch, 1, 1, generator=generator) * torch.pi
    gap = 6 + 6 * torch.rand(batch, 1, 1, generator=generator)
    across = axis.view(1, -1, 1) * angle.sin() + axis.view(1, 1, -1) * angle.cos()
    row = ((across % gap) < 2.0).float()[:, None]
    soil = torch.rand(batch, 3, size, size, generator=generator)
    return 0.6 * soil + torch.tensor([0.0, 0.4, 0.0]).view(1, 3, 1, 1) * row, row


class RowNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 4 * width, 4, stride=4)
        self.mid = nn.Sequential(
            nn.Conv2d(4 * width, 4 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(4 * width, 4 * width, 3, padding=1)
        )
        self.context = nn.Sequential(nn.Linear(4 * width, 8192), nn.ReLU(), nn.Linear(8192, 4 * width))
        self.up = nn.ConvTranspose2d(4 * width, width, 4, stride=4)
        self.leave = nn.Conv2d(2 * width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.relu(self.enter(x))
        far = torch.relu(self.down(near))
        far = far + self.mid(far)
        far = far + self.context(far.mean((2, 3)))[:, :, None, None]
        return self.leave(torch.cat([near, torch.relu(self.up(far))], 1))


def save_checkpoint(path: Path, step: int, model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    torch.save({"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)


def worker(rank: int, args: argparse.Namespace) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(args.port), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ["WORLD_SIZE"] = str(args.gpus)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=args.gpus)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    net = DistributedDataParallel(RowNet(args.width).to(device))
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(100 + rank)
    mean = 0.0
    for step in range(1, args.steps + 1):
        picture, row = pictures(args.size, args.batch, generator)
        loss = F.binary_cross_entropy_with_logits(net(picture.to(device)), row.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.item() if step == 1 else 0.9 * mean + 0.1 * loss.item()
        if step % 10 == 0 and rank == 0:
            print(f"{step:6d} {mean:.4f}", flush=True)
        if step % args.save_every == 0:
            save_checkpoint(args.out / "last.pt", step, net, optimizer)
            if rank == 0:
                print(f"saved {args.out / 'last.pt'}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    args.out = args.out or Path(tempfile.mkdtemp(prefix="vineyard-"))
    args.out.mkdir(parents=True, exist_ok=True)
    args.port = free_port()
    mp.spawn(worker, args=(args,), nprocs=args.gpus, join=True)


if __name__ == "__main__":
    main()
