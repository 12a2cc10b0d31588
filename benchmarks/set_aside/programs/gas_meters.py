"""Day-ahead gas demand from a week of hourly meters (Lightning 2)."""

import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HOURS, FEATURES, AHEAD = 168, 8, 24


class Meters(Dataset):
    def __init__(self, households, days, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(days * 24.0)
        temperature = 8 + 9 * torch.sin(t / 24 / 365 * 6.28) + 4 * torch.sin(t / 24 * 6.28) + torch.randn(len(t), generator=g)
        self.series = []
        for _ in range(households):
            habit = torch.rand(3, generator=g)
            demand = torch.relu(18 - temperature) * (0.5 + habit[0]) * 0.1
            demand = demand + habit[1] * torch.exp(-(((t % 24) - 7 - 2 * habit[2]) ** 2) / 6)
            demand = demand + 0.1 * torch.randn(len(t), generator=g)
            clock = [torch.sin(t / 24 * 6.28), torch.cos(t / 24 * 6.28), torch.sin(t / 168 * 6.28), torch.cos(t / 168 * 6.28)]
            columns = [demand, temperature / 10, *clock, habit[0].expand_as(t), habit[1].expand_as(t)]
            self.series.append(torch.stack(columns, 1))
        self.windows = days - 9

    def __len__(self):
        return len(self.series) * self.windows

    def __getitem__(self, i):
        series = self.series[i // self.windows]
        start = (i % self.windows) * 24
        return series[start : start + HOURS], series[start + HOURS : start + HOURS + AHEAD, 0]


class Forecaster(L.LightningModule):
    def __init__(self, hidden=40, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        layers, channels = [], FEATURES
        for dilation in (1, 2, 4, 8, 16):
            layers += [nn.Conv1d(channels, hidden, 3, padding=dilation, dilation=dilation), nn.ReLU()]
            channels = hidden
        self.tcn = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, AHEAD))
        # training_epoch_end is gone in 2.0, the migration guide says to keep the outputs here
        self.training_step_outputs = []

    def forward(self, x):
        h = self.tcn(x.transpose(1, 2))
        return self.head(torch.cat([h[..., -1], h.mean(-1)], 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        y_hat = self(x)
        loss = nn.functional.mse_loss(y_hat, y)
        self.log("train_loss", loss, prog_bar=True)
        self.training_step_outputs.append({"x": x, "y": y, "y_hat": y_hat.detach(), "loss": loss.detach()})
        return loss

    def on_train_epoch_end(self):
        last = self.training_step_outputs[-1]
        self.print(f"\nepoch {self.current_epoch}: mse {last['loss']:.4f}, bias {(last['y_hat'] - last['y']).mean():+.4f}")

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self(x), y), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    print("reading meters")
    L.seed_everything(4)
    train = DataLoader(Meters(60, 300, 1), batch_size=128, shuffle=True, drop_last=True)
    val = DataLoader(Meters(6, 60, 2), batch_size=64)
    trainer = L.Trainer(max_epochs=25, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                        default_root_dir=tempfile.mkdtemp(), enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(Forecaster(), train, val)
