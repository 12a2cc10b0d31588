"""Pigments from reflectance spectra (Lightning). Spectra come one csv per pigment from the lab."""
import tempfile
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

PIGMENTS = ["azurite", "malachite", "ochre", "umber", "vermilion", "smalt", "lead white", "indigo", "madder", "verdigris"]
BANDS = 256


def lab_csv(folder, k, n, seed):
    """What the spectrometer's export looks like: one row per measurement."""
    rng = np.random.default_rng(seed * 100 + k)
    own = np.random.default_rng(k)
    grid = np.linspace(0, 1, BANDS)
    curve = 0.6 + np.sin(3 * grid) * 0.3 + 0.25 * sum(own.uniform(0.2, 1) * np.exp(-((grid - own.uniform(0, 1)) ** 2) / own.uniform(0.002, 0.02)) for _ in range(5))
    rows = curve * rng.uniform(0.7, 1.3, (n, 1)) + rng.uniform(-0.3, 0.3, (n, 1)) * grid + rng.normal(0, 0.35, (n, BANDS))
    np.save(folder / f"{seed}_{k:02d}.npy", rows.astype(np.float32))


class PigmentData(L.LightningDataModule):
    def __init__(self, folder, batch_size=32):
        super().__init__()
        self.folder, self.batch_size = Path(folder), batch_size

    def prepare_data(self):
        for k in range(len(PIGMENTS)):
            lab_csv(self.folder, k, 960, seed=1)
            lab_csv(self.folder, k, 64, seed=2)

    def _read(self, seed):
        parts = []
        for k in range(len(PIGMENTS)):
            x = torch.from_numpy(np.load(self.folder / f"{seed}_{k:02d}.npy"))
            parts.append(TensorDataset(x, torch.full((len(x),), k)))
        return ConcatDataset(parts)

    def setup(self, stage=None):
        self.train_set, self.val_set = self._read(1), self._read(2)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=128)


class SpectrumNet(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(
            nn.Conv1d(1, 48, 9, padding=4), nn.GELU(), nn.MaxPool1d(2),
            nn.Conv1d(48, 96, 9, padding=4), nn.GELU(), nn.MaxPool1d(2),
            nn.Conv1d(96, 64, 9, padding=4), nn.GELU(), nn.AvgPool1d(8),
            nn.Flatten(), nn.Linear(64 * 8, 128), nn.GELU(), nn.Linear(128, len(PIGMENTS)),
        )  # fmt: skip
        self.ce = nn.CrossEntropyLoss()

    def forward(self, x):
        return self.net(x[:, None])

    def training_step(self, batch, i):
        x, y = batch
        loss = self.ce(self(x), y)
        if i % 5 == 0:
            print(f"epoch {self.current_epoch} step {self.global_step} train_loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, i):
        x, y = batch
        out = self(x)
        self.log("val_loss", self.ce(out, y))
        self.log("val_acc", (out.argmax(1) == y).float().mean())

    def on_validation_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch} val_loss {m['val_loss']:.4f} val_acc {m['val_acc']:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


if __name__ == "__main__":
    L.seed_everything(0)
    with tempfile.TemporaryDirectory(prefix="pigments_") as tmp:
        trainer = L.Trainer(
            accelerator="cpu", max_epochs=400, default_root_dir=tmp, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(SpectrumNet(), datamodule=PigmentData(tmp))
