"""Forecasts the load of a substation for the next day from the past week.

    python substation_load.py --workers 2
"""
import argparse
import csv
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def hourly_load(days, seed):
    rng = np.random.default_rng(seed)
    h = np.arange(days * 24)
    base = 40 + 12 * np.sin(2 * np.pi * (h - 7) / 24) + 5 * np.sin(4 * np.pi * h / 24)
    base -= 8 * ((h // 24) % 7 >= 5)
    base += 10 * np.cos(2 * np.pi * h / (24 * 365))
    wander = np.convolve(rng.normal(0, 1, len(h)), np.exp(-np.arange(72) / 18), mode="full")[: len(h)]
    return (base + wander).astype(np.float32)


class Windows(Dataset):
    def __init__(self, load, past=168, ahead=24, stride=8, noise=0.0):
        self.mean, self.std = float(load.mean()), float(load.std())
        self.load = (load - self.mean) / self.std
        self.past, self.ahead, self.noise = past, ahead, noise
        self.starts = np.arange(0, len(load) - past - ahead, stride)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        x = self.load[s:s + self.past]
        y = self.load[s + self.past:s + self.past + self.ahead]
        if self.noise:
            x = x + np.random.normal(0, self.noise, x.shape).astype(np.float32)
        hour = (np.arange(s, s + self.past) % 24) / 24 * 2 * np.pi
        features = np.stack([x, np.sin(hour), np.cos(hour)], axis=1).astype(np.float32)
        return torch.from_numpy(features), torch.from_numpy(y.copy())


class Forecaster(nn.Module):
    def __init__(self, hidden=64, ahead=24):
        super().__init__()
        self.rnn = nn.GRU(3, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.out = nn.Linear(hidden, ahead)

    def forward(self, x):
        h, _ = self.rnn(x)
        return x[:, -24:, 0] + self.out(h[:, -1])


def evaluate(model, loader, device, std):
    model.eval()
    errors = []
    with torch.no_grad():
        for x, y in loader:
            errors.append((model(x.to(device)).cpu() - y).abs().mean(1))
    model.train()
    return torch.cat(errors).mean().item() * std


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--days", type=int, default=360)
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--log", default="substation_load.csv")
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    load = hourly_load(args.days + 60, seed=5)
    train = Windows(load[: args.days * 24], noise=0.05)
    valid = Windows(load[args.days * 24:], stride=24)
    options = dict(batch_size=args.batch_size, num_workers=args.workers, pin_memory=device == "cuda")
    if args.workers:
        options["multiprocessing_context"] = "spawn"
    train_loader = DataLoader(train, shuffle=True, **options)
    valid_loader = DataLoader(valid, **options)
    model = Forecaster().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    print(f"{len(train)} training windows, {len(valid)} for validation, {len(train_loader)} batches per epoch on {device}")

    with open(args.log, "w", newline="") as f:
        log = csv.writer(f)
        log.writerow(["epoch", "loss", "val_mae", "seconds"])
        for epoch in range(1, args.epochs + 1):
            begin = time.time()
            total, computing = 0.0, 0.0
            for x, y in train_loader:
                t = time.time()
                x, y = x.to(device), y.to(device)
                loss = nn.functional.smooth_l1_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                total += loss.item()
                computing += time.time() - t
            scheduler.step()
            mae = evaluate(model, valid_loader, device, train.std)
            seconds = time.time() - begin
            log.writerow([epoch, total / len(train_loader), mae, seconds])
            f.flush()
            print(f"epoch {epoch:3d}  loss {total / len(train_loader):.4f}  val MAE {mae:.2f} MW  "
                  f"{seconds:.1f} s (steps {computing:.1f} s)")


if __name__ == "__main__":
    main()
