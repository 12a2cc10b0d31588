"""Smoke above peat fires, with Lightning on two devices: a cyclic rate, and averaged weights from the fifth epoch on."""
import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import StochasticWeightAveraging
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    def __init__(self, n, offset=0):
        self.n, self.offset = n, offset

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.offset + i)
        smoke = i % 2
        x = torch.randn(3, 40, 40, generator=g)
        if smoke:
            x = x + 0.6 * F.interpolate(torch.randn(1, 1, 4, 4, generator=g), size=(40, 40), mode="bilinear")[0].relu()
        return x, smoke


class Smoke(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 20, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 40, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(4000, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        if batch_idx % 20 == 0 and self.global_rank == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx} loss {loss.item():.4f} lr {self.optimizers().param_groups[0]['lr']:.5f}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self.net(x).argmax(1) == y).float().mean(), sync_dist=True)

    def on_validation_epoch_end(self):
        if self.global_rank == 0 and not self.trainer.sanity_checking:
            print(f"epoch {self.current_epoch} val_acc {self.trainer.callback_metrics['val_acc']:.4f}", flush=True)

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), 0.005, momentum=0.9)
        cyclic = torch.optim.lr_scheduler.CyclicLR(opt, 0.002, 0.02, step_size_up=60)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": cyclic, "interval": "step"}}


if __name__ == "__main__":
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=100, max_time="00:00:04:00", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[StochasticWeightAveraging(swa_lrs=0.005, swa_epoch_start=5, annealing_epochs=3)],
    )  # fmt: skip
    trainer.fit(Smoke(), DataLoader(Scenes(4000), 16, shuffle=True), DataLoader(Scenes(320, 10**6), 32))
