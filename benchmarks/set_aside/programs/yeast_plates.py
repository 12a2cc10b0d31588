"""Colony types on agar plates: Lightning, strong mixup and label smoothing, EMA-free baseline."""
import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TYPES = 8


def plates(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, TYPES, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.arange(36.0), torch.arange(36.0), indexing="ij")
    cx, cy = (torch.rand(2, n, 1, 1, generator=g) * 8 + 14)
    r = ((yy - cy) ** 2 + (xx - cx) ** 2).sqrt()
    radius = 6.0 + (y % 4)[:, None, None] * 2.0
    rim = torch.exp(-((r - radius) ** 2) / 4)
    inner = (r < radius).float() * 0.6 * (y // 4)[:, None, None]
    return (rim + inner + 0.35 * torch.randn(n, 36, 36, generator=g))[:, None], y


class Colonies(LightningModule):
    def __init__(self, alpha=0.8, smoothing=0.1, lr=2e-3, steps=4000):
        super().__init__()
        self.save_hyperparameters()
        w = 40
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(w, 2 * w, 3, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * w, 2 * w, 3, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.4), nn.Linear(18 * w, TYPES),
        )

    def training_step(self, batch, _):
        x, y = batch
        lam = float(np.random.beta(self.hparams.alpha, self.hparams.alpha))
        other = torch.randperm(len(x))
        logits = self.net(lam * x + (1 - lam) * x[other])
        ce = lambda t: F.cross_entropy(logits, t, label_smoothing=self.hparams.smoothing)
        loss = lam * ce(y) + (1 - lam) * ce(y[other])
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        self.log("train_acc", (logits.argmax(1) == y).float().mean(), on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        logits = self.net(x)
        self.log_dict({"val_loss": F.cross_entropy(logits, y), "val_acc": (logits.argmax(1) == y).float().mean()})

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.02)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=self.hparams.steps)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Table(Callback):
    def on_train_epoch_end(self, trainer, module):
        m = {k: float(v) for k, v in trainer.callback_metrics.items()}
        print(trainer.current_epoch, *(f"{k}={m[k]:.4f}" for k in ("train_loss", "train_acc", "val_loss", "val_acc")), flush=True)


if __name__ == "__main__":
    seed_everything(0)
    print("epoch train_loss train_acc val_loss val_acc", flush=True)
    Trainer(max_steps=4000, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, num_sanity_val_steps=0, callbacks=[Table()]).fit(
        Colonies(), DataLoader(TensorDataset(*plates(1600, 0)), 32, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(*plates(320, 1)), 64))
