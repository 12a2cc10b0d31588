"""Moisture of grain from near-infrared spectra and storage data, with Lightning."""
import argparse
import time

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_samples(count, bands=120, seed=21):
    g = torch.Generator().manual_seed(seed)
    wave = torch.linspace(0, 1, bands)
    moisture = torch.rand(count, 1, generator=g) * 12 + 8
    protein = torch.rand(count, 1, generator=g) * 6 + 9
    spectrum = 0.05 * moisture * torch.exp(-((wave - 0.6) / 0.08) ** 2) \
        + 0.03 * protein * torch.exp(-((wave - 0.25) / 0.1) ** 2) \
        + torch.rand(count, 1, generator=g) * 1.5 * wave + 0.15 * torch.randn(count, bands, generator=g)
    storage = torch.rand(count, 8, generator=g) * torch.tensor([30, 100, 5, 1, 1, 10, 365, 2.0])
    humid = (storage[:, 1:2] - 50) * 0.03
    return torch.cat([spectrum, storage], 1), (moisture + humid).squeeze(1)


class MoistureNet(L.LightningModule):
    def __init__(self, inputs, width=512, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)

    def training_step(self, batch, _):
        x, y = batch
        loss = F.mse_loss(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_rmse", F.mse_loss(self(x), y).sqrt())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class Lines(L.Callback):
    def on_train_start(self, trainer, module):
        self.began = time.time()

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if trainer.global_step % 40 == 0:
            print(f"  step {trainer.global_step} mse {outputs['loss'].item():.3f}", flush=True)

    def on_train_epoch_end(self, trainer, module):
        values = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch}: train mse {values['train_loss']:.3f}, "
              f"val rmse {values['val_rmse']:.3f}, {time.time() - self.began:.0f} s", flush=True)


def baseline(model, x, y):
    """What the untrained network and the mean are worth."""
    model.eval()
    with torch.no_grad():
        network = F.mse_loss(model(x), y).sqrt().item()
    mean = (y - y.mean()).pow(2).mean().sqrt().item()
    return network, mean


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=12000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    L.seed_everything(4)
    x, y = make_samples(args.samples)
    x_val, y_val = make_samples(2000, seed=22)
    train = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
    val = DataLoader(TensorDataset(x_val, y_val), batch_size=500)
    model = MoistureNet(x.shape[1], lr=args.lr)
    network, mean = baseline(model, x_val, y_val)
    print(f"rmse before training {network:.3f}, rmse of the mean {mean:.3f}", flush=True)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="auto", devices=1, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, callbacks=[Lines()],
                        gradient_clip_val=5.0)
    trainer.fit(model, train, val)


if __name__ == "__main__":
    main()
