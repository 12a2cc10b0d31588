"""Denoises vibration spectrograms of pumps with a small conv autoencoder (ported from Lightning 1.9 to 2.x)."""
import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch import LightningDataModule, LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, Dataset

BINS, FRAMES = 64, 96


class Spectrograms(Dataset):
    def __init__(self, n, seed):
        g = np.random.default_rng(seed)
        self.freq = g.uniform(4, 28, n).astype(np.float32)
        self.wobble = g.uniform(0, 3, n).astype(np.float32)

    def __len__(self):
        return len(self.freq)

    def __getitem__(self, i):
        f = torch.arange(BINS)[:, None]
        t = torch.arange(FRAMES)[None]
        center = self.freq[i] + self.wobble[i] * torch.sin(t / 9.0)
        clean = torch.exp(-((f - center) ** 2) / 6) + 0.5 * torch.exp(-((f - 2 * center) ** 2) / 6)
        return (clean + 0.4 * torch.randn(BINS, FRAMES))[None], clean[None]


class PumpData(LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Spectrograms(1600, 0), batch_size=16, shuffle=True, num_workers=0)

    def val_dataloader(self):
        return DataLoader(Spectrograms(128, 1), batch_size=16, num_workers=0)


class Denoiser(LightningModule):
    def __init__(self, width=24, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        w = width
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 3, padding=1), nn.ReLU(),
            nn.Conv2d(w, w, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 3, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(2 * w, w, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(w, 1, 3, padding=1),
        )
        # training_epoch_end was removed in 2.0, see the migration guide
        self.training_step_outputs = []
        self.validation_step_outputs = []

    def training_step(self, batch, batch_idx):
        noisy, clean = batch
        out = self.net(noisy)
        loss = F.mse_loss(out, clean)
        self.training_step_outputs.append({"loss": loss.detach(), "pred": out.detach(), "target": clean})
        if batch_idx % 20 == 0:
            print(f"[{self.current_epoch:03d}:{batch_idx:04d}] train_loss={loss.item():.5f}", flush=True)
        return loss

    def on_train_epoch_end(self):
        loss = torch.stack([o["loss"] for o in self.training_step_outputs]).mean()
        last = self.training_step_outputs[-1]
        peak = (last["pred"].amax() - last["target"].amax()).abs()
        print(f"epoch {self.current_epoch} mean loss {loss:.5f} peak error {peak:.3f}", flush=True)

    def validation_step(self, batch, batch_idx):
        noisy, clean = batch
        self.validation_step_outputs.append(F.mse_loss(self.net(noisy), clean))

    def on_validation_epoch_end(self):
        print(f"val_loss={torch.stack(self.validation_step_outputs).mean():.5f}", flush=True)
        self.validation_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    seed_everything(1)
    trainer = Trainer(max_epochs=28, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(Denoiser(), datamodule=PumpData())


if __name__ == "__main__":
    main()
