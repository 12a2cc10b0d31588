"""Wheel flats of rail wagons from trackside accelerometers. Started by rail_wagons.sh."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def setup_distributed():
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0)))
    local_rank = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0)))
    distributed = int(os.environ.get("SLURM_NTASKS", 1)) > 1
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        device = torch.device("cuda", local_rank)
    else:
        device = torch.device("cpu")
    if distributed:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return rank, device, distributed


def passings(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, 800)
    y = torch.randint(0, 4, (n,), generator=g)  # none, small, large, polygon
    speed = 6 + 6 * torch.rand(n, 1, generator=g)
    phase = torch.rand(n, 1, generator=g)
    turn = (t[None] * speed + phase) % 1
    flat = torch.exp(-((turn - 0.5) ** 2) / 0.001) * (y[:, None] == 1) * 1.5
    flat = flat + torch.exp(-((turn - 0.5) ** 2) / 0.004) * (y[:, None] == 2) * 2.0
    poly = torch.sin(6.28 * 5 * t[None] * speed) * (y[:, None] == 3) * 0.7
    x = torch.stack([flat + poly, 0.6 * flat - 0.3 * poly], 1) + 0.7 * torch.randn(n, 2, 800, generator=g)
    return TensorDataset(x, y)


class WagonNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(2, 32, 15, 2, 7), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 64, 11, 2, 5), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 96, 9, 2, 4), nn.BatchNorm1d(96), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(96, 4),
        )

    def forward(self, x):
        return self.net(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    rank, device, distributed = setup_distributed()
    torch.manual_seed(0)
    if rank == 0:
        print("device", device, "batch", args.batch_size)

    data = passings(6000, 1)
    sampler = DistributedSampler(data) if distributed else None
    loader = DataLoader(data, args.batch_size, shuffle=sampler is None, sampler=sampler, drop_last=True)
    model = WagonNet().to(device)
    if distributed:
        model = DistributedDataParallel(model, device_ids=[rank] if torch.cuda.is_available() else None)
    opt = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    crit = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            loss = crit(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 20 == 0:
                print(f"Epoch [{epoch + 1}/{args.epochs}] Iter [{i}/{len(loader)}] Loss: {loss.item():.4f}")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
