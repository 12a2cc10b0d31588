"""Passengers per bus stop and hour from weather, calendar and stop: a residual MLP."""
import argparse
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_table(stops, days, seed):
    rng = np.random.default_rng(seed)
    n = 60_000
    stop = rng.integers(0, stops, n)
    day = rng.integers(0, days, n)
    hour = rng.integers(5, 24, n)
    rain = rng.gamma(0.6, 2.0, n)
    warmth = 12 + 10 * np.sin(2 * np.pi * day / 365) + rng.normal(0, 3, n)
    busy = rng.gamma(3, 8, stops)[stop]
    peak = np.exp(-(hour - 8) ** 2 / 3) + 0.8 * np.exp(-(hour - 17) ** 2 / 5) + 0.2
    weekend = (day % 7 >= 5).astype(float)
    riders = busy * peak * (1 - 0.5 * weekend) * (1 + 0.04 * np.minimum(rain, 10)) * (1 - 0.004 * (warmth - 12))
    numbers = np.stack([np.sin(hour / 24 * 6.283), np.cos(hour / 24 * 6.283), rain / 5, (warmth - 12) / 10, weekend], 1)
    target = np.log1p(rng.poisson(riders))
    return (torch.tensor(stop), torch.tensor(numbers, dtype=torch.float32), torch.tensor(target, dtype=torch.float32))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.net(x)


class Ridership(nn.Module):
    def __init__(self, stops, width, blocks):
        super().__init__()
        self.stop = nn.Embedding(stops, 32)
        self.inputs = nn.Linear(32 + 5, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(blocks)])
        self.out = nn.Linear(width, 1)

    def forward(self, stop, numbers):
        return self.out(self.blocks(self.inputs(torch.cat([self.stop(stop), numbers], 1)))).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    args = parser.parse_args()
    with open(args.config) as file:
        cfg = yaml.safe_load(file)
    torch.set_num_threads(1)
    torch.manual_seed(cfg["data"]["seed"])

    rank = int(os.environ.get("RANK", 0))
    local = int(os.environ.get("LOCAL_RANK", 0))
    world = int(os.environ.get("WORLD_SIZE", 1))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if world > 1:
        dist.init_process_group("nccl" if cuda else "gloo")

    data = TensorDataset(*make_table(**cfg["data"]))
    sampler = DistributedSampler(data) if world > 1 else None
    loader = DataLoader(data, batch_size=cfg["train"]["batch_size"], sampler=sampler, shuffle=sampler is None,
                        drop_last=True)
    model = Ridership(cfg["data"]["stops"], **cfg["model"]).to(device)
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[local] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["train"]["lr"])
    print(f"rank {rank} of {world} (local {local}), {len(data)} rows, {len(loader)} batches, device {device}")

    step = 0
    for epoch in range(cfg["train"]["epochs"]):
        if sampler is not None:
            sampler.set_epoch(epoch)
        began, total = time.time(), 0.0
        for stop, numbers, target in loader:
            out = model(stop.to(device), numbers.to(device))
            loss = nn.functional.mse_loss(out, target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            total += loss.item()
            if step % cfg["train"]["log_every"] == 0:
                print(f"[rank {rank}/{world}] epoch {epoch} step {step} mse {loss.item():.4f}")
        if rank == 0:
            print(f"[rank {rank}/{world}] epoch {epoch} mean mse {total / len(loader):.4f} {time.time() - began:.1f} s")
            torch.save(model.state_dict(), f"bus_ridership_{local}.pt")


if __name__ == "__main__":
    main()
