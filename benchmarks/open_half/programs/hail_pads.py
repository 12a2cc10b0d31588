"""Sizes of hailstones from the dents in foam pads. Lightning, two devices."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Pads(Dataset):
    """A pad has up to 30 dents; the target is their mean diameter."""

    def __init__(self, n: int, first: int = 0) -> None:
        self.n, self.first = n, first
        axis = torch.arange(40.0)
        self.y, self.x = axis[:, None], axis[None, :]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(self.first + i)
        size = 1 + 3 * torch.rand(1, generator=g)
        pad = torch.zeros(40, 40)
        for _ in range(int(torch.randint(5, 15, (1,), generator=g))):
            cx, cy = 40 * torch.rand(2, generator=g)
            pad -= torch.exp(-((self.x - cx) ** 2 + (self.y - cy) ** 2) / (2 * size**2))
        return pad[None] + 0.05 * torch.randn(1, 40, 40, generator=g), size


class DentNet(pl.LightningModule):
    """Convolutions, and one number at the end."""

    def __init__(self, width: int = 24, lr: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(64), nn.ReLU(),
            nn.Linear(64, 1),
        )  # fmt: skip
        self.net(torch.zeros(1, 1, 40, 40))

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """Return the error of a batch."""
        pads, sizes = batch
        return functional.huber_loss(self.net(pads), sizes)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


class Reports(pl.Callback):
    """Prints the smoothed loss, and keeps the weights with the best one."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every
        self.smooth, self.best = float("nan"), float("inf")

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        """Look at the loss of the last batches."""
        loss = float(outputs["loss"])
        self.smooth = loss if self.smooth != self.smooth else 0.95 * self.smooth + 0.05 * loss
        step = trainer.global_step
        if not trainer.is_global_zero:
            return
        if step % 10 == 0:
            print(f"step {step:5d} epoch {trainer.current_epoch} huber {self.smooth:.4f}", flush=True)
        if step % self.every == 0 and self.smooth < self.best:
            self.best = self.smooth
            trainer.save_checkpoint(self.folder / f"dents-{step:06d}.ckpt")


def main() -> None:
    """Fit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--save-every", type=int, default=150)
    args = parser.parse_args()
    torch.set_num_threads(1)
    pl.seed_everything(11)
    trainer = pl.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=args.devices,
        strategy="ddp",
        max_epochs=500,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[Reports(Path(tempfile.mkdtemp()), args.save_every)],
    )
    trainer.fit(DentNet(), DataLoader(Pads(6400), args.batch, shuffle=True))


if __name__ == "__main__":
    main()
