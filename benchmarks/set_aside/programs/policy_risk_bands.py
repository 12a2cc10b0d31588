"""Risk band (1-5) of motor policies from the application form. Config: policy_risk_bands.yaml"""
import csv
import logging
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

logger = logging.getLogger("risk")

REGIONS, VEHICLES, USES = 40, 120, 6


def load_policies(rows, seed):
    """Stand-in for the export from the warehouse."""
    rng = np.random.default_rng(seed)
    table = {
        "inception_day": rng.integers(0, 1800, rows),
        "driver_age": rng.integers(18, 85, rows),
        "vehicle_age": rng.integers(0, 22, rows),
        "km_per_year": rng.gamma(3.0, 4500, rows),
        "power_kw": rng.normal(92, 28, rows).clip(30),
        "claim_free_years": rng.integers(0, 30, rows),
        "region": rng.integers(0, REGIONS, rows),
        "vehicle": rng.integers(0, VEHICLES, rows),
        "use": rng.integers(0, USES, rows),
    }
    region_effect, vehicle_effect = rng.normal(0, 0.5, REGIONS), rng.normal(0, 0.6, VEHICLES)
    score = (1.4 * np.exp(-(table["driver_age"] - 18) / 8.0) + 0.00006 * table["km_per_year"] + 0.012 * table["power_kw"]
             - 0.05 * table["claim_free_years"] + region_effect[table["region"]] + vehicle_effect[table["vehicle"]]
             + 0.3 * (table["use"] == 2) + rng.normal(0, 0.4, rows))
    table["band"] = np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)
    return table


def build_features(table):
    """Numeric features, in order of inception so that the portfolio's running means look only backwards."""
    frame = {k: v for k, v in table.items() if k != "band"}
    order = np.argsort(frame["inception_day"], kind="stable")
    frame = {k: v[order] for k, v in frame.items()}
    n = np.arange(1, len(order) + 1)
    numeric = [
        frame["driver_age"], np.log1p(frame["driver_age"] - 18), frame["vehicle_age"], np.log1p(frame["km_per_year"]),
        frame["km_per_year"] / 10000, frame["power_kw"], frame["claim_free_years"],
        frame["km_per_year"] - np.cumsum(frame["km_per_year"]) / n,
        frame["power_kw"] - np.cumsum(frame["power_kw"]) / n,
        np.sin(2 * np.pi * frame["inception_day"] / 365), np.cos(2 * np.pi * frame["inception_day"] / 365),
    ]
    numeric = np.stack(numeric, 1).astype(np.float32)
    numeric = (numeric - numeric.mean(0)) / numeric.std(0)
    categorical = np.stack([frame["region"], frame["vehicle"], frame["use"]], 1)
    return torch.from_numpy(numeric), torch.from_numpy(categorical)


class BandNet(nn.Module):
    def __init__(self, n_numeric, width, depth, dropout):
        super().__init__()
        self.region, self.vehicle, self.use = nn.Embedding(REGIONS, 16), nn.Embedding(VEHICLES, 24), nn.Embedding(USES, 4)
        layers, size = [], n_numeric + 44
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(dropout)]
            size = width
        self.mlp = nn.Sequential(*layers, nn.Linear(size, 5))

    def forward(self, numeric, cat):
        return self.mlp(torch.cat([numeric, self.region(cat[:, 0]), self.vehicle(cat[:, 1]), self.use(cat[:, 2])], 1))


def main():
    cfg_path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".yaml")
    cfg = yaml.safe_load(open(cfg_path))
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(message)s", datefmt="%H:%M:%S")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(cfg["data"]["seed"])

    policies = load_policies(cfg["data"]["rows"], cfg["data"]["seed"])
    numeric, categorical = build_features(policies)
    labels = torch.from_numpy(policies["band"])
    n_valid = int(len(labels) * cfg["data"]["valid_share"])
    train, valid = slice(0, len(labels) - n_valid), slice(len(labels) - n_valid, None)
    numeric, categorical, labels = numeric.to(device), categorical.to(device), labels.to(device)
    logger.info("policies: %d train, %d valid; %d numeric features; on %s", train.stop, n_valid, numeric.shape[1], device)

    o = cfg["optim"]
    model = BandNet(numeric.shape[1], **cfg["model"]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
    steps = train.stop // o["batch_size"]
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, o["lr"], total_steps=steps * o["epochs"], pct_start=0.02)
    out = Path(tempfile.gettempdir()) / "policy_risk_bands"
    out.mkdir(exist_ok=True)
    metrics = csv.writer(open(out / "metrics.csv", "w", buffering=1))
    metrics.writerow(["epoch", "train_loss", "valid_loss", "valid_acc", "seconds"])

    for epoch in range(1, o["epochs"] + 1):
        model.train()
        start, running = time.time(), 0.0
        perm = torch.randperm(train.stop, device=device)
        for i in range(steps):
            idx = perm[i * o["batch_size"]:(i + 1) * o["batch_size"]]
            loss = F.cross_entropy(model(numeric[idx], categorical[idx]), labels[idx])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
            if (i + 1) % cfg["log_every"] == 0:
                logger.info("epoch %d [%d/%d] loss=%.4f lr=%.2e", epoch, i + 1, steps, running / cfg["log_every"], scheduler.get_last_lr()[0])
                running = 0.0
        model.eval()
        with torch.no_grad():
            logits = torch.cat([model(a, b) for a, b in zip(numeric[valid].split(4096), categorical[valid].split(4096))])
            vloss = F.cross_entropy(logits, labels[valid]).item()
            vacc = (logits.argmax(1) == labels[valid]).float().mean().item()
        logger.info("epoch %d valid loss=%.4f accuracy=%.3f", epoch, vloss, vacc)
        metrics.writerow([epoch, loss.item(), vloss, vacc, time.time() - start])
        torch.save({"model": model.state_dict(), "epoch": epoch}, out / "last.pt")


if __name__ == "__main__":
    main()
