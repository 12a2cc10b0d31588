"""Monocular depth on rendered hillsides, LightningModule (migrated from 1.9 to 2.x)."""
import logging
import tempfile
import warnings

import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


class Hillsides(Dataset):
    def __init__(self, n, seed, size=80):
        self.n, self.seed, self.size = n, seed, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        coarse = torch.rand(1, 1, 6, 6, generator=g)
        depth = F.interpolate(coarse, size=(self.size, self.size), mode="bicubic", align_corners=True)[0]
        depth = depth + torch.linspace(1.0, 0.0, self.size)[None, :, None]
        fog = torch.exp(-depth)
        dx = F.pad(depth[:, :, 1:] - depth[:, :, :-1], (0, 1)) * 10
        image = torch.cat([fog, dx.sigmoid(), fog * dx.sigmoid()]) + 0.03 * torch.randn(3, self.size, self.size, generator=g)
        return image, depth


class DepthNet(pl.LightningModule):
    def __init__(self, lr=1e-3, width=16):
        super().__init__()
        self.save_hyperparameters()
        w = width
        self.enc = nn.Sequential(
            nn.Conv2d(3, w, 3, 2, 1), nn.ReLU(), nn.Conv2d(w, 2 * w, 3, 2, 1), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.Conv2d(2 * w, 2 * w, 3, 1, 1), nn.ReLU(),
        )
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(w, w, 4, 2, 1), nn.ReLU(), nn.Conv2d(w, 1, 3, 1, 1)
        )
        self.validation_step_outputs = []
        self.train_loss = 0.0

    def forward(self, x):
        return self.dec(self.enc(x))

    def training_step(self, batch, batch_idx):
        image, depth = batch
        loss = F.l1_loss(self(image), depth)
        self.train_loss = 0.9 * self.train_loss + 0.1 * loss.item()
        return loss

    def validation_step(self, batch, batch_idx):
        image, depth = batch
        pred = self(image)
        rmse = F.mse_loss(pred, depth).sqrt()
        self.validation_step_outputs.append({"image": image, "pred": pred, "depth": depth, "rmse": rmse})

    def on_validation_epoch_end(self):
        outputs = self.validation_step_outputs
        n = self.trainer.num_val_batches[0]
        rmse = torch.stack([o["rmse"] for o in outputs[-n:]]).mean()
        worst = max(outputs[-n:], key=lambda o: o["rmse"])
        err = (worst["pred"] - worst["depth"]).abs().max()
        print(f"epoch {self.current_epoch:3d} train_l1={self.train_loss:.4f} val_rmse={rmse:.4f} worst_error={err:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    pl.seed_everything(7)
    root = tempfile.TemporaryDirectory(prefix="hillside-")
    train = DataLoader(Hillsides(512, 1), batch_size=16, shuffle=True)
    val = DataLoader(Hillsides(128, 2), batch_size=16)
    trainer = pl.Trainer(
        accelerator="auto", devices=1, max_epochs=150, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=root.name,
    )
    print("training on", trainer.strategy.root_device, flush=True)
    trainer.fit(DepthNet(), train, val)


if __name__ == "__main__":
    main()
