"""Names the family of an instrument from one second of sound (Lightning).

    python instrument_families.py --max-epochs 20
"""
import argparse
import time
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FAMILIES = ["bowed", "plucked", "flutes", "reeds", "brass", "drums", "bells", "keys", "voice", "synth"]


def tone(family, rng, n=4000, rate=4000):
    t = np.arange(n) / rate
    f0 = rng.uniform(110, 330)
    slope = [1.0, 1.3, 2.5, 0.9, 0.6, 0.2, 0.4, 1.6, 1.1, 0.1][family]
    odd_only = family in (3, 9)
    stretch = 0.02 if family in (6, 7) else 0.0
    wave = np.zeros(n)
    for h in range(1, 9):
        if odd_only and h % 2 == 0:
            continue
        f = f0 * h * (1 + stretch * h * h)
        if f < rate / 2:
            wave += np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) / h ** slope
    decay = [0.5, 4, 0.5, 0.7, 0.8, 12, 2.5, 5, 0.6, 0.2][family]
    attack = np.minimum(1, t * [8, 200, 15, 20, 30, 300, 200, 100, 10, 50][family])
    wave *= attack * np.exp(-decay * t)
    if family in (2, 5):
        wave += rng.normal(0, 0.5 if family == 5 else 0.15, n) * np.exp(-decay * t)
    if family in (0, 8):
        wave *= 1 + 0.3 * np.sin(2 * np.pi * rng.uniform(4, 7) * t)
    wave = wave / (np.abs(wave).max() + 1e-6) * rng.uniform(0.4, 1.0)
    return (wave + rng.normal(0, 0.05, n)).astype(np.float32)


class Tones(Dataset):
    """The folder of a sample library: one directory after the other."""

    def __init__(self, per_family, seed):
        rng = np.random.default_rng(seed)
        self.items = [(tone(k, rng), k) for k in range(len(FAMILIES)) for _ in range(per_family)]
        self.window = torch.hann_window(256)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        wave, family = self.items[i]
        spec = torch.stft(torch.from_numpy(wave), 256, 64, window=self.window, return_complex=True).abs()
        return (torch.log(spec[:96, :60] + 1e-2)[None] + 2) / 2, family


class FamilyNet(L.LightningModule):
    def __init__(self, lr, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
            nn.Flatten(), nn.Linear(32 * width, 128), nn.ReLU(), nn.Linear(128, len(FAMILIES)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Printer(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % 5 == 4:
            print(f"{time.strftime('%H:%M:%S')} epoch {trainer.current_epoch} batch {batch_idx + 1}/{trainer.num_training_batches} "
                  f"train_loss {outputs['loss'].item():.4f}", flush=True)

    def on_validation_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch} val_loss {m['val_loss']:.3f} val_acc {m['val_acc']:.3f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--per-family", type=int, default=640)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--max-epochs", type=int, default=30)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    torch.set_num_threads(1)
    L.seed_everything(7)
    train = DataLoader(Tones(args.per_family, 1), batch_size=args.batch_size)
    valid = DataLoader(Tones(20, 2), batch_size=50)
    print(f"{len(train.dataset)} samples in {len(FAMILIES)} folders, {len(train)} batches per epoch", flush=True)
    trainer = L.Trainer(max_epochs=args.max_epochs, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, num_sanity_val_steps=0, callbacks=[Printer()])
    trainer.fit(FamilyNet(args.lr), train, valid)


if __name__ == "__main__":
    main()
