"""Walk-forward training on electricity prices: forecast the next days, then learn them, in the order of time. No look-ahead."""
import argparse
import csv
import sys
import time

import torch
from torch import nn


def market(hours, seed=6):
    """Hourly prices with regimes: the level and the shape of the day change every few months."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours)
    regime = t // (24 * 60)
    level = torch.randn(int(regime.max()) + 1, generator=g).cumsum(0)[regime]
    shape = torch.randn(int(regime.max()) + 1, 24, generator=g)[regime, t % 24]
    wind = nn.functional.avg_pool1d(torch.randn(1, 1, hours + 47, generator=g), 48, 1)[0, 0] * 4
    return torch.stack([level + 0.8 * shape - wind + 0.15 * torch.randn(hours, generator=g), wind], 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--days", type=int, default=4, help="days of one block")
    ap.add_argument("--passes", type=int, default=100, help="passes over the last blocks after each")
    ap.add_argument("--seconds", type=float, default=205)
    a = ap.parse_args()
    torch.manual_seed(0)
    series = market(24 * 365 * 30)
    net = nn.Sequential(nn.Flatten(), nn.Linear(2 * 168, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 24))
    opt = torch.optim.AdamW(net.parameters(), 5e-4, weight_decay=0.01)
    out = csv.writer(sys.stdout)
    out.writerow(["block", "day", "forecast_mae", "train_loss", "seconds"])
    start, block, at = time.time(), 0, 24 * 90
    while at + 24 * a.days < len(series) and time.time() - start < a.seconds:
        ends = torch.arange(at, at + 24 * a.days, 12)
        window = lambda e: (torch.stack([series[i - 168:i] for i in e.tolist()]), torch.stack([series[i:i + 24, 0] for i in e.tolist()]))  # noqa: E731
        x, y = window(ends.clamp(max=len(series) - 24))
        with torch.no_grad():
            mae = (net(x) - y).abs().mean().item()
        at += 24 * a.days
        recent = torch.arange(max(200, at - 24 * 80), at - 24, 6)
        for _ in range(a.passes):
            x, y = window(recent[-64:])
            loss = nn.functional.smooth_l1_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        block += 1
        out.writerow([block, at // 24, f"{mae:.4f}", f"{loss.item():.4f}", f"{time.time() - start:.1f}"])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
