"""Sweep over learning rate, width and dropout for the volume of bread: short trials, each in its own process."""
import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import time

import torch
from torch import nn


def make_bakes(count, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 14, generator=g)
    flour, water, yeast, proof, oven = x[:, 0], x[:, 1], x[:, 2], x[:, 3], x[:, 4]
    rise = torch.exp(-((yeast * proof - 0.3) / 0.2) ** 2) * (0.5 + flour)
    y = rise + 0.6 * torch.sin(3 * water) - (oven - 0.6) ** 2 * 2 + 0.3 * x[:, 5] * x[:, 6]
    return x, (y - 0.9) / 0.35 + 0.1 * torch.randn(count, generator=g)


def trial(setting, seconds):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = make_bakes(8000, 1)
    x_val, y_val = make_bakes(2000, 2)
    width = setting["width"]
    model = nn.Sequential(nn.Linear(14, width), nn.ReLU(), nn.Dropout(setting["dropout"]), nn.Linear(width, width),
                          nn.ReLU(), nn.Dropout(setting["dropout"]), nn.Linear(width, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=setting["lr"], momentum=0.9)
    began, epoch = time.time(), 0
    while time.time() - began < seconds:
        model.train()
        total = 0.0
        for part in torch.randperm(len(x)).split(64):
            loss = nn.functional.mse_loss(model(x[part].to(device)).squeeze(1), y[part].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(part) / len(x)
        model.eval()
        with torch.no_grad():
            val = nn.functional.mse_loss(model(x_val.to(device)).squeeze(1), y_val.to(device)).item()
        print(json.dumps({"epoch": epoch, "train": round(total, 4), "val": round(val, 4)}), flush=True)
        epoch += 1


def run_trial(number, setting, seconds, history):
    """Starts a trial and stops it early when it is worse than the median of the others at the same epoch."""
    command = [sys.executable, "-u", __file__, "--trial", json.dumps(setting), "--seconds", str(seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    values, pruned = [], False
    for line in child.stdout:
        row = json.loads(line)
        values.append(row["val"])
        epoch = row["epoch"]
        if epoch % 5 == 0:
            print(f"  trial {number} epoch {epoch} train {row['train']:.4f} val {row['val']:.4f}", flush=True)
        others = [h[epoch] for h in history if len(h) > epoch]
        if epoch >= 6 and len(others) >= 4 and values[-1] > 1.5 * statistics.median(others):
            pruned = True
            child.terminate()
            break
    child.stdout.close()
    child.wait()
    history.append(values)
    return min(values) if values else float("inf"), len(values), pruned


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trial", help="one trial's setting as JSON (used by the sweep itself)")
    parser.add_argument("--seconds", type=float, default=12.0, help="per trial")
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()
    if args.trial:
        trial(json.loads(args.trial), args.seconds)
        return
    grid = [dict(lr=lr, width=w, dropout=d) for lr, w, d in
            itertools.product([0.2, 0.05, 0.01, 0.003, 0.0005], [64, 192], [0.0, 0.1, 0.3])]
    random.Random(6).shuffle(grid)
    history, best = [], (float("inf"), None)
    print(f"{min(args.trials, len(grid))} trials of {args.seconds:.0f} s", flush=True)
    for number, setting in enumerate(grid[:args.trials]):
        print(f"trial {number}: {setting}", flush=True)
        value, epochs, pruned = run_trial(number, setting, args.seconds, history)
        if value < best[0]:
            best = (value, setting)
        print(f"trial {number} {'pruned' if pruned else 'done'} after {epochs} epochs: best val {value:.4f}; "
              f"best so far {best[0]:.4f} with {best[1]}", flush=True)


if __name__ == "__main__":
    main()
