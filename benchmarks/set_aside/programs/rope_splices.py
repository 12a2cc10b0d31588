"""Rope inspection: finds bad splices in line scan profiles (Lightning, HDF5).

usage: python rope_splices.py [--workers 2]
"""
import argparse
import os
import tempfile

import h5py
import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset

N_PROFILES = 960
LENGTH = 512


def write_scans(path):
    rng = np.random.default_rng(7)
    with h5py.File(path, "w") as f:
        x = f.create_dataset("profile", (N_PROFILES, 2, LENGTH), dtype="f4", chunks=(1, 2, LENGTH))
        y = f.create_dataset("label", (N_PROFILES,), dtype="i8")
        t = np.linspace(0, 1, LENGTH)
        for i in range(N_PROFILES):
            label = int(rng.integers(0, 3))
            lay = rng.uniform(18, 26)
            p = np.stack([np.sin(2 * np.pi * lay * t + a) for a in (0.0, 1.2)])
            p += rng.normal(0, 0.6, p.shape)
            if label:
                c, w = rng.uniform(0.2, 0.8), rng.uniform(0.03, 0.06)
                bump = np.exp(-(((t - c) / w) ** 2))
                p += bump * (0.9 if label == 1 else -0.9)
            x[i], y[i] = p, label if rng.random() > 0.08 else int(rng.integers(0, 3))


class RopeScans(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None

    def __len__(self):
        return N_PROFILES

    def __getitem__(self, i):
        if self.file is None:  # each worker opens its own handle
            self.file = h5py.File(self.path, "r")
        x = torch.from_numpy(self.file["profile"][i])
        return x + 0.05 * torch.randn_like(x), int(self.file["label"][i])


class SpliceNet(L.LightningModule):
    def __init__(self, width=80, lr=6e-4):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(
            nn.Conv1d(2, width, 9, stride=2, padding=4), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width * 2, 9, stride=2, padding=4), nn.BatchNorm1d(width * 2), nn.ReLU(),
            nn.Conv1d(width * 2, width * 2, 9, padding=4), nn.BatchNorm1d(width * 2), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Dropout(0.2),
        )
        self.head = nn.Linear(width * 8, 3)

    def forward(self, x):
        return self.head(self.body(x))

    def training_step(self, batch, i):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        if i % 9 == 0:
            print(f"  epoch {self.current_epoch:03d} [{i}/36] loss {loss.item():.4f}", flush=True)
        self.log("train_loss", loss, on_epoch=True, on_step=False)
        return loss

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch:03d}  train_loss {self.trainer.callback_metrics['train_loss']:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=24)
    args = parser.parse_args()
    L.seed_everything(3)
    folder = tempfile.mkdtemp(prefix="rope_")
    path = os.path.join(folder, "scans.h5")
    write_scans(path)
    print("scans written:", path, flush=True)
    # HDF5 does not survive a fork, therefore spawn
    loader = DataLoader(
        Subset(RopeScans(path), range(864)), batch_size=args.batch_size, shuffle=True, drop_last=True,
        num_workers=args.workers, multiprocessing_context="spawn",
    )
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=400, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder, log_every_n_steps=5,
    )
    trainer.fit(SpliceNet(), loader)


if __name__ == "__main__":
    main()
