"""Finds prohibited items in x-ray images of bags: multi-label Lightning module, DDP on two devices."""
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch.utils.data import DataLoader, Dataset

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
ITEMS = 6


class Bags(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.has = (torch.rand(n, ITEMS, generator=g) < 0.3).float()
        self.seed = torch.randint(1 << 30, (n,), generator=g)
        self.shapes = torch.randn(ITEMS, 9, 9, generator=torch.Generator().manual_seed(99)).sign()

    def __len__(self):
        return len(self.has)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(int(self.seed[i]))
        img = 0.5 * torch.randn(56, 56, generator=g)
        for k in self.has[i].nonzero().flatten().tolist():
            r, c = torch.randint(0, 47, (2,), generator=g).tolist()
            img[r : r + 9, c : c + 9] += self.shapes[k]
        return img[None], self.has[i]


class BeltModel(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 96, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(96, ITEMS),
        )
        self.hits = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.binary_cross_entropy_with_logits(self.net(x), y)
        if batch_idx % 10 == 0 and self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        p = self.net(x).sigmoid() > 0.5
        self.hits.append((p == y.bool()).float().mean())

    def on_validation_epoch_end(self):
        acc = torch.stack(self.hits).mean()
        self.hits.clear()
        # only one process should report
        if self.trainer.is_global_zero:
            acc = self.all_gather(acc).mean()
            print(f"epoch {self.current_epoch} val_acc {acc:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    seed_everything(4)
    trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=40, num_sanity_val_steps=0, logger=False,
                      enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(BeltModel(), DataLoader(Bags(4800, 0), batch_size=24, shuffle=True, drop_last=True),
                DataLoader(Bags(480, 1), batch_size=24))


if __name__ == "__main__":
    main()
