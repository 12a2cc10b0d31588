"""Damage classes of parcels from the sorting belt (six classes). Baseline for Q3."""
import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import lightning as L
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", ".*logger.*")
CLASSES = ["ok", "dented", "wet", "torn", "open", "label_missing"]


def write_photos(folder, n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:384, 0:384].astype(np.float32)
    for i in range(n):
        c = int(rng.integers(len(CLASSES)))
        img = np.empty((384, 384, 3), np.float32)
        stripes = 18 * np.sin((xx * (c % 3 + 1) + yy * (c // 3)) / 9 + rng.uniform(0, 6))
        for k in range(3):
            img[..., k] = 120 + stripes + 14 * ((c + k) % 3)
        img += rng.normal(0, 60, img.shape)
        np.savez_compressed(folder / f"{i:05d}_{c}.npz", img=img.clip(0, 255).astype(np.uint8))


class ParcelPhotos(Dataset):
    def __init__(self, folder, size=64, augment=True):
        self.files = sorted(folder.glob("*.npz"))
        self.size = size
        self.augment = augment

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        f = self.files[i]
        with np.load(f) as z:
            img = z["img"].astype(np.float32) / 255.0
        if self.augment:
            img = self.jitter(img)
            img = self.blur(img, np.random.randint(1, 4))
            if np.random.rand() < 0.5:
                img = img[:, ::-1]
        # resize at the end so that the augmentations see the full resolution
        step = img.shape[0] // self.size
        img = img[: step * self.size, : step * self.size]
        img = img.reshape(self.size, step, self.size, step, 3).mean((1, 3))
        return torch.from_numpy(np.ascontiguousarray(img.transpose(2, 0, 1))).float(), int(f.stem.split("_")[1])

    @staticmethod
    def jitter(img):
        gamma = np.random.uniform(0.8, 1.25)
        img = np.power(img, gamma)
        return (img * np.random.uniform(0.9, 1.1) + np.random.uniform(-0.05, 0.05)).clip(0, 1)

    @staticmethod
    def blur(img, r):
        out = np.zeros_like(img)
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                out += np.roll(np.roll(img, dy, 0), dx, 1)
        return out / (2 * r + 1) ** 2


class Net(L.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        layers, c = [], 3
        for w in (24, 48, 96):
            layers += [nn.Conv2d(c, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2)]
            c = w
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(c, len(CLASSES))

    def training_step(self, batch, idx):
        x, y = batch
        logits = self.head(self.body(x))
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(1) == y).float().mean()
        if idx % 2 == 0:
            print(f"epoch {self.current_epoch} batch {idx} loss {loss.item():.4f} acc {acc.item():.3f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=200)
    a = p.parse_args()
    L.seed_everything(7)
    with tempfile.TemporaryDirectory(prefix="parcels-") as tmp:
        t = time.time()
        write_photos(Path(tmp), 224, 0)
        print(f"224 photos written in {time.time() - t:.1f} s", flush=True)
        loader = DataLoader(ParcelPhotos(Path(tmp)), batch_size=a.batch_size, shuffle=True)
        trainer = L.Trainer(max_epochs=a.epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Net(a.lr), loader)
