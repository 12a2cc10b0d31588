"""Inflow of a reservoir, 5 days ahead: LSTM on gauge and weather series.

ported from pytorch_lightning 1.6 (training_epoch_end is gone in 2.x, see the migration guide)
"""
import argparse
import tempfile

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Gauges(Dataset):
    def __init__(self, days=9000, window=168, horizon=5, n_features=12):
        g = torch.Generator().manual_seed(21)
        t = torch.arange(days) / 365.25
        rain = torch.relu(torch.randn(days, generator=g)) * (1 + 0.6 * torch.sin(6.283 * t))
        flow = torch.zeros(days)
        for d in range(1, days):
            flow[d] = 0.93 * flow[d - 1] + 0.4 * rain[d - 1] + 0.1 * rain[max(0, d - 4)]
        rest = torch.randn(days, n_features - 3, generator=g) * 0.3 + rain[:, None] * 0.5
        self.x = torch.cat([flow[:, None] / 4, rain[:, None], torch.sin(6.283 * t)[:, None], rest], 1)
        self.y = flow / 4
        self.window, self.horizon = window, horizon

    def __len__(self):
        return len(self.x) - self.window - self.horizon

    def __getitem__(self, i):
        j = i + self.window
        return self.x[i:j], self.y[j : j + self.horizon]


class InflowModel(pl.LightningModule):
    def __init__(self, hidden=64, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.rnn = nn.LSTM(12, hidden, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, 5))
        self.training_step_outputs = []

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.out(states[:, -1]), states

    def training_step(self, batch, batch_idx):
        x, y = batch
        pred, states = self(x)
        loss = nn.functional.smooth_l1_loss(pred, y)
        # the states are for the saliency plots at the end of the epoch
        self.training_step_outputs.append({"loss": loss.detach(), "pred": pred.detach(), "states": states.detach()[:, 7::8].clone()})
        if self.global_step % 25 == 0:
            print(f"step {self.global_step:5d} loss {loss:.5f}", flush=True)
        return loss

    def on_train_epoch_end(self):
        outputs = self.training_step_outputs[-self.trainer.num_training_batches :]
        mean = torch.stack([o["loss"] for o in outputs]).mean()
        strongest = outputs[-1]["states"][:, -1].abs().mean(0).topk(3).indices.tolist()
        print(f"== epoch {self.current_epoch} mean loss {mean:.5f}, strongest units {strongest}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--max_steps", type=int, default=3400)
    a = p.parse_args()
    pl.seed_everything(1)
    with tempfile.TemporaryDirectory(prefix="inflow_") as tmp:
        trainer = pl.Trainer(
            accelerator="cpu",
            devices=1,
            max_steps=a.max_steps,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            gradient_clip_val=1.0,
            default_root_dir=tmp,
        )
        trainer.fit(InflowModel(a.hidden), DataLoader(Gauges(), batch_size=a.batch, shuffle=True, drop_last=True))


main()
