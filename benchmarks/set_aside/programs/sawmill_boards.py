"""Grades boards at the saw mill (knots, resin, wane). torchrun --nproc-per-node=2 sawmill_boards.py"""
import os
import tempfile

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from torch.utils.data import DataLoader, TensorDataset

GRADES = 4


def boards(n=6000, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(GRADES, (n,), generator=g)
    x = 0.5 * torch.randn(n, 1, 32, 64, generator=g)
    for k in range(GRADES - 1):  # the more knots, the worse the grade
        has = (y > k).nonzero().flatten()
        r = torch.randint(4, 26, (len(has),), generator=g)
        c = torch.randint(4, 58, (len(has),), generator=g)
        for dr in range(-2, 3):
            for dc in range(-2, 3):
                x[has, 0, r + dr, c + dc] += 1.5
    return TensorDataset(x, y)


class KeepsSnapshots(Callback):
    """A snapshot every few steps, for the people at the mill who want to try the newest one."""

    def __init__(self, folder, every=200):
        self.folder, self.every = folder, every

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % self.every == 0 and trainer.is_global_zero:
            trainer.save_checkpoint(os.path.join(self.folder, f"boards-{trainer.global_step:06d}.ckpt"))
            print(f"saved step {trainer.global_step}", flush=True)


class Grader(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, GRADES),
        )

    def training_step(self, batch, i):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        if i % 20 == 0:
            self.print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.seed_everything(5)
    folder = tempfile.mkdtemp(prefix="boards_")
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=60, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, default_root_dir=folder, callbacks=[KeepsSnapshots(folder)],
    )
    trainer.fit(Grader(), DataLoader(boards(), batch_size=32, shuffle=True, drop_last=True))
