"""Demand for rental bikes, 9 quantiles at once. Two processes with Accelerate, gradients accumulated over 8 batches.

torchrun --nproc-per-node=2 rental_bikes.py
"""
import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

QUANTILES = torch.linspace(0.1, 0.9, 9)


def demand(n, seed):
    g = torch.Generator().manual_seed(seed)
    hour = torch.rand(n, generator=g) * 24
    weekday = torch.randint(0, 7, (n,), generator=g)
    temp = 12 + 9 * torch.randn(n, generator=g)
    rain = (torch.rand(n, generator=g) < 0.25).float()
    station = torch.randint(0, 200, (n,), generator=g)
    size = torch.rand(200, generator=g) * 1.5 + 0.3
    rush = torch.exp(-((hour - 8) ** 2) / 3) + torch.exp(-((hour - 18) ** 2) / 4)
    mean = size[station] * (0.4 + rush * (weekday < 5) + 0.5 * (weekday >= 5) * torch.sin(hour / 24 * math.pi))
    mean = mean * torch.sigmoid((temp - 5) / 6) * (1 - 0.6 * rain)
    y = mean * torch.exp(0.4 * torch.randn(n, generator=g))
    x = torch.stack([torch.sin(hour * math.pi / 12), torch.cos(hour * math.pi / 12), hour / 24, temp / 10, rain], 1)
    return TensorDataset(x, station, weekday, y)


class DemandNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.station = nn.Embedding(200, 32)
        self.weekday = nn.Embedding(7, 8)
        self.net = nn.Sequential(
            nn.Linear(45, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 9),
        )  # fmt: skip

    def forward(self, x, station, weekday):
        h = self.net(torch.cat([x, self.station(station), self.weekday(weekday)], 1))
        return torch.cumsum(torch.cat([h[:, :1], nn.functional.softplus(h[:, 1:])], 1), 1)


def pinball(pred, y):
    diff = y[:, None] - pred
    q = QUANTILES.to(pred.device)
    return torch.maximum(q * diff, (q - 1) * diff).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=512)
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    set_seed(0)
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=8)
    accelerator.print(accelerator.state, flush=True)
    train = DataLoader(demand(200_000, 1), batch_size=512, shuffle=True, drop_last=True)
    model = DemandNet(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train) // 8)
    model, optimizer, train, schedule = accelerator.prepare(model, optimizer, train, schedule)
    running, n = 0.0, 0
    for epoch in range(args.epochs):
        model.train()
        for i, (x, station, weekday, y) in enumerate(train):
            with accelerator.accumulate(model):
                loss = pinball(model(x, station, weekday), y)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            running, n = running + loss.item(), n + 1
            if i % 40 == 39:
                accelerator.print(f"epoch {epoch} batch {i + 1} pinball {running / n:.4f}", flush=True)
                running, n = 0.0, 0
    accelerator.end_training()


if __name__ == "__main__":
    main()
