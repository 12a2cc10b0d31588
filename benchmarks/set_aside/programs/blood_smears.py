"""Blood smear classifier, 2 devices, Lightning DDP.

torchrun --nproc-per-node=2 blood_smears.py
"""
import os
import tempfile

print("blood smears, rank", os.environ.get("RANK"), flush=True)

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def smears(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(6, (n,), generator=g)
    r = torch.arange(40)
    d = ((r[:, None] - 20) ** 2 + (r[None] - 20) ** 2).sqrt()
    radius = 8 + 1.5 * y.float()[:, None, None]
    disc = (d[None] < radius).float() - 0.6 * (d[None] < radius / (1.5 + y[:, None, None] % 3)).float()
    x = torch.stack([disc, 0.5 * disc, 0.2 * disc], 1) + 0.6 * torch.randn(n, 3, 40, 40, generator=g)
    return TensorDataset(x, y)


class Smear(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 96, 3, padding=1), nn.BatchNorm2d(96), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(96, 6),
        )

    def training_step(self, batch, i):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class PrintAndSave(L.Callback):
    """Prints the loss, and keeps the model with the lowest one."""

    def __init__(self, folder, print_every=10, save_every=150):
        self.folder, self.print_every, self.save_every = folder, print_every, save_every
        self.best = float("inf")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if not trainer.is_global_zero:
            return
        loss = outputs["loss"].item()
        if trainer.global_step % self.print_every == 0:
            print(f"epoch {trainer.current_epoch} step {trainer.global_step} loss {loss:.4f}", flush=True)
        if trainer.global_step % self.save_every == 0 and loss < self.best:
            self.best = loss
            trainer.save_checkpoint(os.path.join(self.folder, "best.ckpt"))


if __name__ == "__main__":
    L.seed_everything(3)
    with tempfile.TemporaryDirectory() as tmp:
        loader = DataLoader(smears(8000, 0), batch_size=32, shuffle=True)
        trainer = L.Trainer(max_epochs=200, accelerator="auto", devices=2, strategy="ddp", logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, callbacks=[PrintAndSave(tmp)])
        trainer.fit(Smear(), loader)
