import argparse
import logging
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("blades")


def export_scans(root, cfg):
    """Same layout as the export of the rig: one archive per blade, tiles and defect class."""
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(cfg["seed"])
    size, n = cfg["data"]["tile"], cfg["data"]["tiles_per_scan"]
    yy, xx = np.mgrid[0:size, 0:size] / size
    for k in range(cfg["data"]["n_scans"]):
        y = rng.integers(0, cfg["model"]["n_defects"], n)
        x = rng.normal(0, 36, (n, size, size)) + 110
        for i, c in enumerate(y):
            angle, offset = c * np.pi / 5 + rng.normal(0, 0.05), rng.uniform(-0.2, 0.2)
            line = np.abs(np.cos(angle) * (xx - 0.5) + np.sin(angle) * (yy - 0.5) + offset)
            x[i] -= 40 * (line < 0.04)
        np.savez_compressed(os.path.join(root, f"scan_{k:03d}.npz"), tiles=x.astype(np.int16), defect=y)


class BladeTiles(Dataset):
    def __init__(self, root, cfg):
        self.files = sorted(os.path.join(root, f) for f in os.listdir(root) if f.endswith(".npz"))
        self.per_scan = cfg["data"]["tiles_per_scan"]

    def __len__(self):
        return len(self.files) * self.per_scan

    def __getitem__(self, idx):
        scan, row = divmod(idx, self.per_scan)
        archive = np.load(self.files[scan])
        tile = archive["tiles"][row].astype(np.float32)
        tile = (tile - 110.0) / 30.0
        if np.random.rand() < 0.5:
            tile = tile + np.random.normal(0, 0.05, tile.shape).astype(np.float32)
        return torch.from_numpy(tile)[None], int(archive["defect"][row])


class DefectNet(nn.Module):
    def __init__(self, width, n_defects):
        super().__init__()
        chans = [1, width, width * 2, width * 2]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
            for a, b in zip(chans, chans[1:])
        )
        self.head = nn.Linear(chans[-1] * 16, n_defects)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(F.adaptive_avg_pool2d(x, 4).flatten(1))


class Trainer:
    def __init__(self, cfg, root):
        self.cfg = cfg
        self.model = DefectNet(**cfg["model"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **cfg["optim"])
        self.loader = DataLoader(
            BladeTiles(root, cfg), cfg["data"]["batch_size"], shuffle=True, num_workers=cfg["data"]["num_workers"], drop_last=True
        )

    def training_step(self, batch):
        x, y = batch
        out = self.model(x)
        loss = F.cross_entropy(out, y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item(), (out.argmax(1) == y).float().mean().item()

    def fit(self):
        step, t0 = 0, time.time()
        for epoch in range(self.cfg["trainer"]["max_epochs"]):
            self.model.train()
            for batch in self.loader:
                loss, acc = self.training_step(batch)
                step += 1
                if step % self.cfg["trainer"]["log_every"] == 0:
                    log.info("epoch %d step %d loss %.4f acc %.3f (%.0f s)", epoch, step, loss, acc, time.time() - t0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "turbine_blades.yaml"))
    args = parser.parse_args()
    with open(args.config) as f:
        config = yaml.safe_load(f)
    torch.manual_seed(config["seed"])
    log.info("config %s", config)
    with tempfile.TemporaryDirectory(prefix="blades_") as folder:
        export_scans(folder, config)
        Trainer(config, folder).fit()
