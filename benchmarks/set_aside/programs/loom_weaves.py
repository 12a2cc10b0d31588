"""Weave patterns (twill, satin, plain, basket, leno), with Lightning."""
import time

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.functional import accuracy


def cloth(n, seed):
    g = torch.Generator().manual_seed(seed)
    tiles = (torch.rand(5, 8, 8, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    y = torch.randint(0, 5, (n,), generator=g)
    x = tiles[y].repeat(1, 4, 4)[:, None] + 1.2 * torch.randn(n, 1, 32, 32, generator=g)
    return TensorDataset(x, y)


class Weaves(L.LightningModule):
    def __init__(self, lr=3e-4):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 5))
        self.training_step_outputs = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        features = self.body(x)
        logits = self.head(features)
        loss = F.cross_entropy(logits, y)
        self.training_step_outputs.append({"loss": loss, "logits": logits, "features": features, "y": y})
        return loss

    def on_train_epoch_end(self):
        outputs = self.training_step_outputs[-self.trainer.num_training_batches :]
        loss = torch.stack([o["loss"] for o in outputs]).mean()
        acc = accuracy(torch.cat([o["logits"] for o in outputs]), torch.cat([o["y"] for o in outputs]), "multiclass", num_classes=5)
        activity = torch.stack([o["features"].mean() for o in outputs]).mean()
        self.log("train_loss", loss)
        self.log("train_acc", acc)
        print(f"epoch {self.current_epoch}: loss {loss:.4f} acc {acc:.3f} activity {activity:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class Progress(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % 20 == 0:
            print(f"{time.strftime('%H:%M:%S')} epoch {trainer.current_epoch} batch {batch_idx} loss {outputs['loss'].item():.4f}", flush=True)


if __name__ == "__main__":
    L.seed_everything(1)
    trainer = L.Trainer(
        max_epochs=200, max_time="00:00:06:00", accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, callbacks=[Progress()],
    )  # fmt: skip
    trainer.fit(Weaves(), DataLoader(cloth(3200, 1), 16, shuffle=True))
