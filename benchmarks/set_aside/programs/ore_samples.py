"""Grade of ore from its spectrum (Lightning, two processes, torchrun)."""
import os
import warnings

if os.environ.get("LOCAL_RANK", "0") == "0":
    print("ore samples: starting", flush=True)

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


def spectra(n, seed, bands=256):
    g = torch.Generator().manual_seed(seed)
    grade = torch.rand(n, 3, generator=g)
    axis = torch.linspace(0, 1, bands)
    x = 0.1 * torch.randn(n, bands, generator=g)
    for k, (center, width) in enumerate([(0.2, 0.02), (0.45, 0.05), (0.7, 0.03)]):
        shift = center + 0.02 * torch.randn(n, 1, generator=g)
        x += grade[:, k : k + 1] * torch.exp(-(((axis - shift) / width) ** 2))
    return TensorDataset(x + 0.3 * torch.rand(n, 1, generator=g) * axis, grade)


class Spectra(L.LightningDataModule):
    def setup(self, stage):
        self.train_set, self.val_set = spectra(6400, 0), spectra(640, 1)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=32, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=64)


class GradeModel(L.LightningModule):
    def __init__(self, width=64, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, 2, 4), nn.ReLU(),
            nn.Conv1d(width, width, 9, 2, 4), nn.ReLU(),
            nn.Conv1d(width, width, 9, 2, 4), nn.ReLU(),
            nn.Flatten(), nn.Linear(width * 32, 128), nn.ReLU(), nn.Linear(128, 3),
        )  # fmt: skip
        self.val_preds, self.val_grades = [], []

    def forward(self, x):
        return self.net(x[:, None])

    def training_step(self, batch, idx):
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        if idx % 20 == 0:
            self.print(f"epoch {self.current_epoch} batch {idx} loss {loss.item():.5f}", flush=True)
        return loss

    def validation_step(self, batch, idx):
        x, y = batch
        self.val_preds.append(self(x))
        self.val_grades.append(y)

    def on_validation_epoch_end(self):
        if self.trainer.is_global_zero:
            # metrics of the whole set, not only of this process
            pred = self.all_gather(torch.cat(self.val_preds)).flatten(0, 1)
            grade = self.all_gather(torch.cat(self.val_grades)).flatten(0, 1)
            mae = (pred - grade).abs().mean(0)
            r2 = 1 - ((pred - grade) ** 2).sum(0) / ((grade - grade.mean(0)) ** 2).sum(0)
            print(f"epoch {self.current_epoch} mae {mae.tolist()} r2 {r2.tolist()}", flush=True)
        self.val_preds.clear()
        self.val_grades.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    L.seed_everything(4)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=80,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=2,
        enable_progress_bar=False,
        enable_checkpointing=False,
        logger=False,
    )
    trainer.fit(GradeModel(), datamodule=Spectra())
