"""Grid over width, rate and dropout for the churn model. Every trial is a process of its own, so that a crash costs one trial only."""
import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRID = {"width": [256, 384], "lr": [1e-3, 3e-3], "dropout": [0.1, 0.3]}
EPOCHS = 8
RESULTS = Path(tempfile.gettempdir()) / "churn_grid"


def trial(params):
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(params["seed"])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40000, 60)).astype(np.float32)
    w = rng.normal(size=(60, 24)) / 5
    score = np.tanh(x @ w) @ rng.normal(size=24) + rng.normal(0, 0.7, len(x))
    y = (score > np.quantile(score, 0.7)).astype(np.float32)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    train = DataLoader(TensorDataset(x[:34000], y[:34000]), 256, shuffle=True, drop_last=True)
    xv, yv = x[34000:].to(device), y[34000:]

    width, drop = params["width"], params["dropout"]
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(drop), nn.Linear(2 * width, width))

        def forward(self, h):
            return h + self.f(h)

    model = nn.Sequential(nn.Linear(60, width), *[Residual() for _ in range(5)], nn.LayerNorm(width), nn.Linear(width, 1)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=params["lr"], weight_decay=0.02)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, params["lr"], total_steps=EPOCHS * len(train))
    step, best = 0, 0.0
    for epoch in range(EPOCHS):
        model.train()
        for xb, yb in train:
            loss = F.binary_cross_entropy_with_logits(model(xb.to(device)).squeeze(1), yb.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 20 == 0:
                print(f"  trial {params['id']} epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            p = model(xv).squeeze(1).cpu()
        order = p.argsort()
        ranks = torch.empty(len(p)).scatter_(0, order, torch.arange(1, len(p) + 1, dtype=torch.float32))
        pos = yv.sum()
        auc = ((ranks[yv > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(yv) - pos))).item()
        best = max(best, auc)
        print(f"  trial {params['id']} epoch {epoch} auc {auc:.4f}", flush=True)
    with open(RESULTS / "trials.jsonl", "a") as f:
        f.write(json.dumps({**params, "auc": best}) + "\n")


def driver():
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "trials.jsonl").unlink(missing_ok=True)
    trials = [dict(zip(GRID, values)) for values in itertools.product(*GRID.values())]
    for i, params in enumerate(trials):
        params.update(id=i, seed=i)
        print(f"[{time.strftime('%H:%M:%S')}] trial {i + 1}/{len(trials)}: {params}", flush=True)
        t0 = time.time()
        code = subprocess.run([sys.executable, __file__, "--trial", json.dumps(params)]).returncode
        print(f"[{time.strftime('%H:%M:%S')}] trial {i + 1} ended with {code} after {time.time() - t0:.0f} s", flush=True)
    done = [json.loads(line) for line in open(RESULTS / "trials.jsonl")]
    for row in sorted(done, key=lambda r: -r["auc"]):
        print(f"auc {row['auc']:.4f}  width {row['width']} lr {row['lr']} dropout {row['dropout']}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--trial", type=json.loads)
    args = p.parse_args()
    trial(args.trial) if args.trial else driver()
