"""Heart rate from a wrist sensor. Lightning, and a rate with warm restarts (the loss jumps each time; that's fine)."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Wrist(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        rate = 0.8 + 1.5 * torch.rand(1, generator=g)
        t = torch.arange(256) / 32
        pulse = torch.sin(6.283 * rate * t + 6.283 * torch.rand(1, generator=g))
        walk = torch.sin(6.283 * 1.7 * t + 6.283 * torch.rand(1, generator=g))
        return torch.stack([pulse + walk, walk]) + 0.4 * torch.randn(2, 256, generator=g), rate


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv1d(2, 32, 15, 2, 7), nn.ReLU(), nn.Conv1d(32, 64, 9, 2, 4), nn.ReLU(), nn.Conv1d(64, 64, 9, 2, 4), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 32, 64), nn.ReLU(), nn.Linear(64, 1),
        )

    def training_step(self, batch, i):
        x, y = batch
        loss = nn.functional.mse_loss(self.f(x), y)
        self.log("train_loss", loss)
        if self.global_step % 10 == 0:
            print(f"step {self.global_step} train_loss {loss.item():.4f} lr {self.optimizers().param_groups[0]['lr']:.5f}", flush=True)
        return loss

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), 0.01, momentum=0.9)
        sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=150, T_mult=1, eta_min=1e-5)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


if __name__ == "__main__":
    L.seed_everything(1)
    loader = DataLoader(Wrist(), 32, shuffle=True, num_workers=1, persistent_workers=True)
    trainer = L.Trainer(max_epochs=1000, accelerator="auto", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Net(), loader)
