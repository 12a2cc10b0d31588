"""Which stop of the organ sounds? Two processes with mp.spawn, as in the tutorial."""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

STOPS = ["bourdon", "dulciana", "flute", "gamba", "oboe", "principal", "quint", "trumpet"]


class Notes(Dataset):
    """Each stop has its own mixture of overtones; each note its own pitch."""

    def __init__(self, n: int = 1600) -> None:
        self.n = n
        self.mix = torch.rand(len(STOPS), 12, generator=torch.Generator().manual_seed(5)) ** 2

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Tensor, int, str]:
        g = torch.Generator().manual_seed(i)
        stop = i % len(STOPS)
        pitch = 4 + 20 * torch.rand(1, generator=g)
        t = torch.arange(2048) / 2048
        waves = torch.sin(6.2832 * pitch * torch.arange(1, 13)[:, None] * t)
        sound = (self.mix[stop][:, None] * waves).sum(0) + 2.5 * torch.randn(2048)
        return sound[None], stop, f"{STOPS[stop]}_{i:04d}.flac"


def network(width: int) -> nn.Module:
    """Return a plain convolutional network."""
    return nn.Sequential(
        nn.Conv1d(1, width, 33, 4), nn.ReLU(), nn.Conv1d(width, 2 * width, 9, 2), nn.ReLU(),
        nn.Conv1d(2 * width, 2 * width, 9, 2), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(),
        nn.Linear(8 * width, len(STOPS)),
    )  # fmt: skip


def work(rank: int, args: argparse.Namespace) -> None:
    """Train on one device."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", os.environ.get("PORT", "12355")
    dist.init_process_group("gloo", rank=rank, world_size=args.world)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    ddp = DistributedDataParallel(network(args.width).to(device))
    optimizer = torch.optim.SGD(ddp.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    notes = Notes()
    sampler = DistributedSampler(notes, num_replicas=args.world, rank=rank, shuffle=True)
    loader = DataLoader(notes, args.batch, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        began, total, right = time.perf_counter(), 0.0, 0
        for step, (x, y, names) in enumerate(loader):
            logits = ddp(x.to(device))
            loss = nn.functional.cross_entropy(logits, y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            right += int((logits.argmax(1).cpu() == y).sum())
            if rank == 0 and step % 10 == 0:
                print(
                    f"Epoch {epoch} Step {step}/{len(loader)} Loss {loss.item():.4f} ({names[0]}, {names[1]}, ...)", flush=True
                )
        if rank == 0:
            accuracy = right / (len(loader) * args.batch)
            seconds = time.perf_counter() - began
            print(f"Epoch {epoch}: loss {total / len(loader):.4f}, train accuracy {accuracy:.3f}, {seconds:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--epochs", type=int, default=500)
    options = parser.parse_args()
    print(options, flush=True)
    mp.spawn(work, args=(options,), nprocs=options.world)
