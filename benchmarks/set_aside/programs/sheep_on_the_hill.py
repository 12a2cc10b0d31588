"""Counts sheep on photographs that a drone took over ten hills (density maps, DDP).

    torchrun --nproc-per-node=2 sheep_on_the_hill.py --epochs 20
"""
import argparse
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

HILLS = {"ben_more": 230, "cairn_toul": 150, "glas_maol": 180, "schiehallion": 260, "suilven": 90,
         "stac_pollaidh": 140, "an_teallach": 210, "lochnagar": 190, "goatfell": 120, "the_cobbler": 160}


def photograph(rng, side=64):
    """Grass with a few white blobs, and the map of their centres."""
    image = rng.normal(0.35, 0.08, (3, side, side)).astype(np.float32)
    image[1] += 0.2
    density = np.zeros((side, side), dtype=np.float32)
    yy, xx = np.mgrid[:side, :side]
    for _ in range(rng.integers(0, 13)):
        cy, cx = rng.uniform(4, side - 4, 2)
        blob = np.exp(-((yy - cy) ** 2 / 4 + (xx - cx) ** 2 / 8)).astype(np.float32)
        image += 0.7 * blob
        spot = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 8).astype(np.float32)
        density += spot / spot.sum()
    return image.clip(0, 1.5), density


class HillPhotographs(IterableDataset):
    """Streams hill by hill, as the drone's memory cards are read."""

    def __init__(self, hills, seed):
        self.hills, self.seed, self.epoch = hills, seed, 0

    def __iter__(self):
        order = np.random.default_rng(self.seed + self.epoch).permutation(len(self.hills))
        for h in order:
            name, count = self.hills[h]
            rng = np.random.default_rng(sum(map(ord, name)))
            for _ in range(count):
                image, density = photograph(rng)
                yield torch.from_numpy(image), torch.from_numpy(density)


class Counter(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=2, dilation=2), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv2d(width, 1, 1),
        )

    def forward(self, x):
        return F.softplus(self.body(x).squeeze(1) - 4)


@torch.no_grad()
def validate(model, device):
    rng = np.random.default_rng(999)
    error = []
    for _ in range(40):
        image, density = photograph(rng)
        guess = model(torch.from_numpy(image)[None].to(device)).sum().item()
        error.append(abs(guess - density.sum()))
    return float(np.mean(error))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch-size", type=int, default=10)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=8)
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)

    mine = list(HILLS.items())[rank::world]
    total = sum(n for _, n in mine)
    print(f"[{rank}] {len(mine)} hills ({', '.join(n for n, _ in mine)}), {total} photographs", flush=True)
    data = HillPhotographs(mine, seed=rank)
    loader = DataLoader(data, batch_size=args.batch_size)
    model = DDP(Counter().to(device))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    for epoch in range(args.epochs):
        data.epoch = epoch
        begin = time.time()
        mae = n = 0
        for step, (image, density) in enumerate(loader, 1):
            image, density = image.to(device), density.to(device)
            predicted = model(image)
            loss = F.mse_loss(predicted * 100, density * 100)
            opt.zero_grad()
            loss.backward()
            opt.step()
            mae += (predicted.sum((1, 2)) - density.sum((1, 2))).abs().sum().item()
            n += len(image)
            if step % args.log_every == 0:
                print(f"[{rank}] epoch {epoch} batch {step} ({n} photographs) loss {loss.item():.3f} "
                      f"error {mae / n:.2f} sheep, {n / (time.time() - begin):.0f} img/s", flush=True)
        sched.step()
        print(f"[{rank}] epoch {epoch} finished after {step} batches, {time.time() - begin:.1f} s", flush=True)
        dist.barrier()
        if rank == 0:
            print(f"[val] epoch {epoch}: mean absolute error {validate(model.module, device):.2f} sheep", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
