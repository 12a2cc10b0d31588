"""Sorts bottle caps on a conveyor: good, dented, no liner, wrong print.

    torchrun --nproc-per-node=2 bottle_caps.py --config bottle_caps.yaml
"""
import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import yaml
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CLASSES = ["good", "dented", "no_liner", "wrong_print"]


def cap(kind, rng, side):
    yy, xx = np.mgrid[:side, :side] / side - 0.5
    cy, cx = rng.uniform(-0.06, 0.06, 2)
    radius = np.hypot(yy - cy, xx - cx)
    angle = np.arctan2(yy - cy, xx - cx) + rng.uniform(0, 6.28)
    edge = 0.38 + 0.01 * np.sin(21 * angle)
    if kind == 1:
        edge -= 0.09 * np.exp(-((angle % 6.28 - 3.14) ** 2) / 0.1)
    image = np.where(radius < edge, 0.7, 0.15)
    if kind != 2:
        image = np.where((radius > 0.24) & (radius < 0.29), 0.45, image)
    spokes = 5 if kind == 3 else 6
    image = np.where((radius < 0.18) & (np.sin(spokes * angle) > 0.2), 0.95, image)
    return (image * rng.uniform(0.7, 1.2) + rng.normal(0, 0.12, (side, side))).astype(np.float32)


def make_caps(n, side, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), n)
    images = np.stack([cap(k, rng, side) for k in labels])
    return TensorDataset(torch.from_numpy(images)[:, None], torch.from_numpy(labels))


def get_rank():
    return dist.get_rank() if dist.is_initialized() else 0


def get_world():
    return dist.get_world_size() if dist.is_initialized() else 1


class CapNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        blocks, inside = [], 1
        for out in (width, 2 * width, 4 * width):
            blocks += [nn.Conv2d(inside, out, 3, padding=1, bias=False), nn.GroupNorm(8, out), nn.ReLU(), nn.MaxPool2d(2)]
            inside = out
        self.features = nn.Sequential(*blocks)
        self.classify = nn.Linear(inside * 4, len(CLASSES))

    def forward(self, x):
        x = self.features(x)
        return self.classify(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    hits = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in loader)
    model.train()
    return hits / len(loader.dataset)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--config", type=Path, default=Path("bottle_caps.yaml"))
    args = p.parse_args()
    cfg = yaml.safe_load(args.config.read_text())
    torch.set_num_threads(cfg["runtime"]["threads"])
    if cfg["runtime"]["distributed"]:
        dist.init_process_group(cfg["runtime"]["backend"])
    rank, world = get_rank(), get_world()
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)

    d, t = cfg["data"], cfg["train"]
    train, valid = make_caps(d["caps"], d["side"], 1), make_caps(400, d["side"], 2)
    sampler = DistributedSampler(train) if world > 1 else None
    loader = DataLoader(train, d["batch_size"], sampler=sampler, shuffle=sampler is None)
    check = DataLoader(valid, 100)
    model = CapNet().to(device)
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=t["lr"], weight_decay=t["weight_decay"])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, t["epochs"])
    if rank == 0:
        print(f"rank {rank} of {world} on {device}: {len(train)} caps, {len(loader)} batches of {d['batch_size']}", flush=True)

    for epoch in range(t["epochs"]):
        if sampler is not None:
            sampler.set_epoch(epoch)
        begin = time.time()
        for step, (x, y) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and step % t["log_every"] == 0:
                print(f"rank {rank}/{world} epoch {epoch} step {step}/{len(loader)} loss {loss.item():.4f}", flush=True)
        scheduler.step()
        if rank == 0:
            print(f"rank {rank}/{world} epoch {epoch} accuracy {accuracy(model, check, device):.3f} "
                  f"({len(train) / (time.time() - begin):.0f} caps/s)", flush=True)
            torch.save({"model": model.state_dict(), "epoch": epoch}, cfg["checkpoint"])
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
