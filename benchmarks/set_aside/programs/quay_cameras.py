"""Container damage from quay cameras. PL version of the old keras job."""
import os
import tempfile

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_KLASSEN = 5


class Crops(Dataset):
    """Alle Ausschnitte liegen im Speicher, eine Datei pro Kran war zu langsam."""

    def __init__(self, n=1280, seed=0):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, N_KLASSEN, n)
        base = np.random.default_rng(99).normal(0, 1, (N_KLASSEN, 3, 16, 16)).astype(np.float32)
        self.x = np.empty((n, 3, 64, 64), np.float32)
        for i, k in enumerate(self.y):
            self.x[i] = rng.normal(0, 1, (3, 64, 64))
            dx, dy = rng.integers(0, 48, 2)
            self.x[i, :, dy : dy + 16, dx : dx + 16] += 0.9 * base[k]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if np.random.rand() < 0.5:
            x = np.roll(x, np.random.randint(-4, 5), axis=2)
        return torch.from_numpy(x.copy()), int(self.y[i])


class QuayData(L.LightningDataModule):
    def __init__(self, batch_size=32, num_workers=2):
        super().__init__()
        self.batch_size = batch_size
        self.num_workers = num_workers

    def setup(self, stage):
        self.train = Crops()

    def train_dataloader(self):
        # spawn: das SDK der Kameras verträgt kein fork
        return DataLoader(
            self.train,
            batch_size=self.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=self.num_workers,
            multiprocessing_context="spawn",
        )


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class DamageNet(L.LightningModule):
    def __init__(self, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(block(3, 24), block(24, 48), block(48, 96), block(96, 128))
        self.head = nn.Linear(128, N_KLASSEN)
        self.sums = []

    def forward(self, x):
        return self.head(self.net(x).amax((2, 3)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.sums.append(loss.item())
        return loss

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch}: train_loss {np.mean(self.sums):.4f}", flush=True)
        self.sums.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main():
    L.seed_everything(11)
    print("quay cameras, pid", os.getpid(), flush=True)
    with tempfile.TemporaryDirectory(prefix="quay_") as root:
        trainer = L.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=500,
            default_root_dir=root,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(DamageNet(), datamodule=QuayData())


if __name__ == "__main__":
    main()
