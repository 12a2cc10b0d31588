"""Sleep stages from EEG: a recurrent model that reads 30 s epochs, band by band (Lightning)."""

from __future__ import annotations

import argparse
import logging
import warnings

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STAGES = ["W", "N1", "N2", "N3", "REM"]
warnings.filterwarnings("ignore", ".*does not have many workers.*")
logging.getLogger("lightning.pytorch").setLevel(logging.INFO)


def nights(count: int, steps: int, bands: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    stage = torch.randint(len(STAGES), (count,), generator=generator)
    spectra = torch.randn(len(STAGES), bands, generator=generator)
    drift = torch.linspace(0.0, 1.0, steps)[None, :, None] * torch.randn(count, 1, bands, generator=generator)
    x = 0.4 * spectra[stage][:, None] + drift + torch.randn(count, steps, bands, generator=generator)
    return TensorDataset(x, stage)


class LayerNormGRUCell(nn.Module):
    """A GRU whose gates are normalized, which nn.GRU does not offer."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.x_gates = nn.Linear(inputs, 3 * hidden)
        self.h_gates = nn.Linear(hidden, 3 * hidden, bias=False)
        self.norm_x, self.norm_h = nn.LayerNorm(3 * hidden), nn.LayerNorm(3 * hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        xr, xz, xn = self.norm_x(self.x_gates(x)).chunk(3, -1)
        hr, hz, hn = self.norm_h(self.h_gates(h)).chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


class SleepStager(pl.LightningModule):
    def __init__(self, bands: int = 16, hidden: int = 96, lr: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.cell = LayerNormGRUCell(bands, hidden)
        self.head = nn.Linear(hidden, len(STAGES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(len(x), self.hparams.hidden)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> torch.Tensor:
        x, stage = batch
        logits = self(x)
        loss = F.cross_entropy(logits, stage)
        self.log_dict({"train_loss": loss, "train_acc": (logits.argmax(1) == stage).float().mean()})
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class PrintEvery(pl.Callback):
    def __init__(self, every: int) -> None:
        self.every = every

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if trainer.global_step % self.every == 0:
            metrics = {key: f"{float(value):.4f}" for key, value in trainer.callback_metrics.items()}
            print(f"[{trainer.current_epoch}/{trainer.global_step}] {metrics}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=6000)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--bands", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=96)
    args = parser.parse_args()
    pl.seed_everything(1)
    torch.set_num_threads(1)
    loader = DataLoader(nights(args.nights, args.steps, args.bands), batch_size=args.batch, shuffle=True, drop_last=True)
    trainer = pl.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=1000,
        gradient_clip_val=1.0,
        detect_anomaly=True,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[PrintEvery(5)],
    )
    trainer.fit(SleepStager(args.bands, args.hidden), loader)


if __name__ == "__main__":
    main()
