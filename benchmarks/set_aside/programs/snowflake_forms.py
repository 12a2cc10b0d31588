"""Classifies photographs of snowflakes into the forms of Nakaya's table.

    python snowflake_forms.py --epochs 10
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split
from tqdm import tqdm

FORMS = ["needle", "column", "plate", "stellar", "dendrite"]


def flake(form, rng, side):
    yy, xx = np.mgrid[:side, :side] / side - 0.5
    turn = rng.uniform(0, np.pi)
    y, x = yy * np.cos(turn) - xx * np.sin(turn), yy * np.sin(turn) + xx * np.cos(turn)
    r, a = np.hypot(y, x), np.arctan2(y, x)
    size = rng.uniform(0.28, 0.42)
    if form == 0:
        shape = (np.abs(y) < size) & (np.abs(x) < 0.025)
    elif form == 1:
        shape = (np.abs(y) < size * 0.7) & (np.abs(x) < 0.12)
    elif form == 2:
        shape = r < size * (0.92 + 0.08 * np.cos(6 * a)) * 0.8
    elif form == 3:
        shape = r < size * np.abs(np.cos(3 * a)) ** 3 + 0.04
    else:
        shape = (r < size * np.abs(np.cos(3 * a)) ** 8 + 0.04) | ((np.abs(np.cos(9 * a)) > 0.9) & (r < size * 0.7))
    image = 0.1 + 0.6 * shape + rng.normal(0, 0.14, shape.shape)
    return image.astype(np.float32)


class Flakes(Dataset):
    def __init__(self, count, side, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(FORMS), count)
        self.images = np.stack([flake(k, rng, side) for k in self.labels])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = torch.from_numpy(self.images[i])
        if torch.rand(()) < 0.5:
            image = image.flip(1)
        return image[None], int(self.labels[i])


class FlakeNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * width, 128), nn.BatchNorm1d(128), nn.ReLU(),
                                  nn.Dropout(0.3), nn.Linear(128, len(FORMS)))

    def forward(self, x):
        return self.head(self.features(x))


def run_epoch(model, loader, device, optimizer=None, title=""):
    model.train(optimizer is not None)
    total = hits = seen = 0
    bar = tqdm(loader, desc=title, mininterval=1.0)
    for x, y in bar:
        x, y = x.to(device), y.to(device)
        with torch.set_grad_enabled(optimizer is not None):
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(y)
        hits += (logits.argmax(1) == y).sum().item()
        seen += len(y)
        bar.set_postfix(loss=f"{total / seen:.3f}", acc=f"{hits / seen:.3f}")
    return total / seen, hits / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--flakes", type=int, default=1814)
    p.add_argument("--side", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    torch.manual_seed(6)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    flakes = Flakes(args.flakes, args.side, seed=6)
    held = args.flakes // 10
    train, valid = random_split(flakes, [args.flakes - held, held])
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=args.batch_size)
    print(f"{len(train)} flakes to train, {len(valid)} to validate, {device}", flush=True)
    model = FlakeNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    best = 0.0
    for epoch in range(1, args.epochs + 1):
        begin = time.time()
        loss, accuracy = run_epoch(model, train_loader, device, optimizer, f"epoch {epoch}")
        val_loss, val_accuracy = run_epoch(model, valid_loader, device, title="valid")
        print(f"epoch {epoch}: loss {loss:.3f} acc {accuracy:.3f} | val {val_loss:.3f} {val_accuracy:.3f} "
              f"| {time.time() - begin:.0f} s", flush=True)
        if val_accuracy > best:
            best = val_accuracy
            torch.save(model.state_dict(), "snowflake_forms_best.pt")


if __name__ == "__main__":
    main()
