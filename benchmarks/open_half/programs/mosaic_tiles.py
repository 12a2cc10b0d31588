"""Representations of mosaic tiles by momentum contrast (MoCo), two processes.

torchrun --standalone --nproc_per_node=2 mosaic_tiles.py
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

MOTIFS, QUEUE, BATCH, TEMPERATURE = 16, 2048, 32, 0.2


class Tiles(Dataset):
    """Two views of each tile; the motif is only for the probe."""

    def __init__(self, n: int, first: int = 0) -> None:
        self.n, self.first = n, first
        self.motifs = torch.randn(MOTIFS, 3, 8, 8, generator=torch.Generator().manual_seed(3))

    def __len__(self) -> int:
        return self.n

    def view(self, i: int) -> Tensor:
        """Shift, brighten, and add noise."""
        own = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(self.first + i))
        tile = (self.motifs[(self.first + i) % MOTIFS] + 0.7 * own).repeat(1, 3, 3)
        tile = tile.roll((int(torch.randint(0, 2, ())), int(torch.randint(0, 2, ()))), (1, 2))
        return tile * (0.6 + 0.8 * torch.rand(3, 1, 1)) + 0.5 * torch.randn_like(tile)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, int]:
        return self.view(i), self.view(i), (self.first + i) % MOTIFS


class Encoder(nn.Module):
    """Convolutions and a projection onto the sphere."""

    def __init__(self, width: int = 32, out: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.GroupNorm(4, width), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.GroupNorm(4, 2 * width), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.projection = nn.Sequential(nn.Linear(18 * width, 128), nn.ReLU(), nn.Linear(128, out))

    def forward(self, x: Tensor) -> Tensor:
        """Return unit vectors."""
        return nn.functional.normalize(self.projection(self.trunk(x)), dim=1)


@torch.no_grad()
def gathered(keys: Tensor) -> Tensor:
    """Return the keys of all processes, in the order of ranks."""
    parts = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, keys.contiguous())
    return torch.cat(parts)


@torch.no_grad()
def neighbours(encoder: Encoder, bank: Tiles, probe: Tiles) -> float:
    """Return how often the nearest tile of the bank has the same motif; each rank asks for a part of the probes."""
    rank, world = dist.get_rank(), dist.get_world_size()
    known = torch.stack([bank.view(i) for i in range(256)])
    labels = torch.arange(256) % MOTIFS
    asked = range(rank, len(probe), world)
    found = encoder(torch.stack([probe.view(i) for i in asked])) @ encoder(known).T
    right = (labels[found.argmax(1)] == torch.tensor([(probe.first + i) % MOTIFS for i in asked])).float().sum()
    dist.all_reduce(right)
    return right.item() / len(probe)


def forever(loader: DataLoader, sampler: DistributedSampler) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the batches of all epochs."""
    for epoch in range(10_000):
        sampler.set_epoch(epoch)
        for a, b, _ in loader:
            yield epoch, a, b


def main() -> None:
    """Train the query encoder; the key encoder follows."""
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    query = Encoder().to(device)
    key = copy.deepcopy(query).requires_grad_(False)
    queue = key(torch.randn(1, 3, 24, 24, device=device)).repeat(QUEUE, 1) + 1e-3 * torch.randn(QUEUE, 64, device=device)
    queue = nn.functional.normalize(-queue, dim=1)
    place = 0
    model = DistributedDataParallel(query)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    torch.manual_seed(100 + rank)
    tiles, probe = Tiles(20000), Tiles(256, first=10**6)
    sampler = DistributedSampler(tiles)
    loader = DataLoader(tiles, BATCH, sampler=sampler, drop_last=True)
    for step, (epoch, a, b) in enumerate(forever(loader, sampler)):
        q = model(a.to(device))
        with torch.no_grad():
            for old, new in zip(key.parameters(), query.parameters(), strict=True):
                old.lerp_(new, 0.01)
            k = key(b.to(device))
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], dim=1) / TEMPERATURE
        loss = nn.functional.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch = gathered(k)
        queue[place : place + len(batch)] = batch
        place = (place + len(batch)) % QUEUE
        if step % 10 == 0 and rank == 0:
            print(f"epoch {epoch} step {step} contrastive loss {loss.item():.4f}", flush=True)
        if step % 100 == 99:
            share = neighbours(query, tiles, probe)
            if rank == 0:
                print(f"step {step} nearest neighbour accuracy {share:.3f}", flush=True)


if __name__ == "__main__":
    main()
