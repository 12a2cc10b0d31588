"""Electricity transformer temperature: 96 steps in, 48 steps out."""
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")

CFG = dict(context=96, horizon=48, channels=14, hidden=128, layers=2, batch_size=64, lr=1e-3,
           max_epochs=14)


def make_series(n=9000, channels=14, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None]
    daily = np.sin(2 * np.pi * t / 24 + rng.uniform(0, 6, channels)) * rng.uniform(0.5, 2, channels)
    weekly = np.sin(2 * np.pi * t / 168 + rng.uniform(0, 6, channels)) * rng.uniform(0.2, 1, channels)
    noise = np.zeros((n, channels))
    for i in range(1, n):
        noise[i] = 0.9 * noise[i - 1] + rng.normal(0, 0.2, channels)
    x = daily + weekly + noise
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32)


class Windows(Dataset):
    def __init__(self, series, context, horizon):
        self.x, self.c, self.h = torch.from_numpy(series), context, horizon

    def __len__(self):
        return len(self.x) - self.c - self.h

    def __getitem__(self, i):
        return self.x[i:i + self.c], self.x[i + self.c:i + self.c + self.h]


class Forecaster(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.save_hyperparameters(cfg)
        self.rnn = nn.GRU(cfg["channels"], cfg["hidden"], cfg["layers"], batch_first=True, dropout=0.1)
        self.head = nn.Linear(cfg["hidden"], cfg["horizon"] * cfg["channels"])
        self.training_step_outputs = []
        self.validation_step_outputs = []

    def forward(self, x):
        z, _ = self.rnn(x)
        return self.head(z[:, -1]).view(len(x), self.hparams.horizon, self.hparams.channels)

    def training_step(self, batch, batch_idx):
        x, y = batch
        pred = self(x)
        loss = nn.functional.mse_loss(pred, y)
        self.training_step_outputs.append({"loss": loss.detach(), "pred": pred.detach().cpu(),
                                           "target": y.cpu(), "input": x.cpu()})
        if batch_idx % 20 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx}/{self.trainer.num_training_batches} "
                  f"train_mse {loss.item():.4f}", flush=True)
        return loss

    def on_train_epoch_end(self):
        outs = self.training_step_outputs
        mse = torch.stack([o["loss"] for o in outs]).mean()
        last = outs[-self.trainer.num_training_batches:]
        mae = torch.stack([(o["pred"] - o["target"]).abs().mean() for o in last]).mean()
        naive = torch.stack([(o["input"][:, -1:] - o["target"]).abs().mean() for o in last]).mean()
        self.log("train_mse", mse)
        print(f"epoch {self.current_epoch} train mse {mse:.4f} mae {mae:.4f} (naive {naive:.4f})", flush=True)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.validation_step_outputs.append(nn.functional.mse_loss(self(x), y))

    def on_validation_epoch_end(self):
        mse = torch.stack(self.validation_step_outputs).mean()
        self.log("val_mse", mse)
        print(f"epoch {self.current_epoch} val mse {mse:.4f}", flush=True)
        self.validation_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main():
    L.seed_everything(7)
    series = make_series()
    train = Windows(series[:7500], CFG["context"], CFG["horizon"])
    val = Windows(series[7500:], CFG["context"], CFG["horizon"])
    train_loader = DataLoader(train, CFG["batch_size"], shuffle=True, drop_last=True)
    val_loader = DataLoader(val, 128)
    trainer = L.Trainer(max_epochs=CFG["max_epochs"], accelerator="auto", devices=1, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(Forecaster(CFG), train_loader, val_loader)


if __name__ == "__main__":
    main()
