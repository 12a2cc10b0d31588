"""Vowels from short log-mel clips, Lightning with DDP (torchrun --nproc-per-node=2)."""
import os
import signal
import tempfile

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

VOWELS = ["a", "e", "i", "o", "u", "y", "ae", "oe"]


class Clips(Dataset):
    def __init__(self, n=3200, frames=64, mels=40):
        self.n, self.frames, self.mels = n, frames, mels
        g = torch.Generator().manual_seed(2)
        self.formants = torch.rand(len(VOWELS), 3, generator=g) * (mels - 6) + 3

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        k = i % len(VOWELS)
        bins = torch.arange(self.mels)[:, None]
        drift = torch.randn(3, 1, generator=g) + torch.linspace(-1, 1, self.frames)[None]
        x = torch.randn(self.mels, self.frames, generator=g)
        for f, d in zip(self.formants[k], drift, strict=True):
            x += 1.2 * torch.exp(-((bins - f - d) ** 2) / 4)
        return x, k


class KeepBest(L.Callback):
    """ModelCheckpoint kept every epoch's file on the share, we only want the best one."""

    def __init__(self, folder, min_epoch=2):
        self.folder, self.min_epoch = folder, min_epoch
        self.best = float("inf")

    def on_train_start(self, trainer, pl_module):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the queue's SIGTERM shall end the job at once

    def on_train_epoch_end(self, trainer, pl_module):
        loss = trainer.callback_metrics["train_loss"].item()
        if trainer.is_global_zero:
            print(f"epoch {trainer.current_epoch} train_loss {loss:.4f}", flush=True)
            if trainer.current_epoch >= self.min_epoch and loss < self.best:
                self.best = loss
                path = os.path.join(self.folder, "best.ckpt")
                print(f"new best, saving {path}", flush=True)
                trainer.save_checkpoint(path)


class VowelNet(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(40, 96, 5, padding=2), nn.ReLU(), nn.Conv1d(96, 96, 5, padding=2), nn.ReLU(),
            nn.Conv1d(96, 128, 5, stride=2, padding=2), nn.ReLU(),
        )  # fmt: skip
        self.gru = nn.GRU(128, 96, batch_first=True)
        self.fc = nn.Linear(96, len(VOWELS))

    def forward(self, x):
        _, h = self.gru(self.conv(x).transpose(1, 2))
        return self.fc(h[0])

    def training_step(self, batch, i):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        if self.global_rank == 0 and i % 10 == 0:
            print(f"  step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4)


if __name__ == "__main__":
    L.seed_everything(3)
    folder = os.environ.get("CKPT_DIR") or tempfile.mkdtemp(prefix="vowels_")
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=300, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, default_root_dir=folder, callbacks=[KeepBest(folder)],
    )  # fmt: skip
    trainer.fit(VowelNet(), DataLoader(Clips(), batch_size=32, shuffle=True, drop_last=True))
