"""Age of fish from the rings of their ear stones.   torchrun --nproc_per_node=2 fish_otoliths.py"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

MAX_AGE = 12


class Otoliths(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Brightness along 6 rays from the core, with one dark ring a year."""

    def __init__(self, count: int, length: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        self.age = torch.randint(1, MAX_AGE + 1, (count,), generator=g)
        along = torch.linspace(0, 1, length)
        growth = 0.6 + 0.4 * torch.rand(count, 1, 1, generator=g)
        phase = 2 * torch.pi * self.age.view(-1, 1, 1) * along.view(1, 1, -1) ** growth
        self.rays = torch.cos(phase) + 0.7 * torch.randn(count, 6, length, generator=g)

    def __len__(self) -> int:
        return len(self.age)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.rays[index], self.age[index].float()


def build(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(6, width, 7, padding=3),
        nn.GroupNorm(8, width),
        nn.GELU(),
        nn.Conv1d(width, width, 7, padding=3, stride=2),
        nn.GroupNorm(8, width),
        nn.GELU(),
        nn.Conv1d(width, 2 * width, 7, padding=3, stride=2),
        nn.GELU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(8 * width, 1),
    )


def average(value: torch.Tensor) -> float:
    dist.all_reduce(value)
    return float(value / dist.get_world_size())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stones", type=int, default=4096)
    parser.add_argument("--length", type=int, default=192)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=32, help="per process")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=1000)
    args = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    torch.set_num_threads(1)

    train, test = Otoliths(args.stones, args.length, 1), Otoliths(512, args.length, 2)
    train_sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    test_sampler = DistributedSampler(test, shuffle=False)
    train_loader = DataLoader(train, batch_size=args.batch_size, sampler=train_sampler, drop_last=True)
    test_loader = DataLoader(test, batch_size=64, sampler=test_sampler)
    model = DistributedDataParallel(build(args.width).to(device), device_ids=[local_rank] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    if rank == 0:
        print(
            f"{len(train)} stones, {len(train_loader)} steps an epoch on each of {dist.get_world_size()} processes", flush=True
        )

    for epoch in range(args.epochs):
        model.train()
        began, total = time.time(), torch.zeros(())
        for step, (rays, age) in enumerate(train_loader):
            loss = F.smooth_l1_loss(model(rays.to(device)).squeeze(1), age.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach().cpu()
            if rank == 0 and step % 8 == 0:
                print(f"{epoch:4d} {step:4d}  huber {loss.item():.4f}", flush=True)
        model.eval()
        error = torch.zeros(())
        with torch.no_grad():
            for rays, age in test_loader:
                error += (model(rays.to(device)).squeeze(1).cpu() - age).abs().mean() / len(test_loader)
        train_loss, mae = average(total / len(train_loader)), average(error)
        if rank == 0:
            print(f"epoch {epoch}: train {train_loss:.4f}  mae {mae:.3f} years  ({time.time() - began:.1f} s)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
