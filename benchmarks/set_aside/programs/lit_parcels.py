"""Crops on parcels from satellite time series; LightningModule with activation statistics for the paper's appendix."""
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ActivationStats:
    def __init__(self, module):
        self.module = module
        self.values = {}

    def attach(self):
        for name, m in self.module.named_modules():
            if isinstance(m, (nn.Conv1d, nn.Linear)):
                m.register_forward_hook(self._hook(name))
        return self

    def _hook(self, name):
        def fn(_, __, out):
            o = out.detach()
            self.values[name] = (torch.histc(o, 40).argmax().item(), o.std().item(), (o > 0).float().mean().item(), o.abs().max().item())

        return fn


class Parcels(L.LightningModule):
    def __init__(self, bands=10, steps=64, classes=14):
        super().__init__()
        c = 32
        self.net = nn.Sequential(
            nn.Conv1d(bands, c, 7, padding=3), nn.ReLU(), nn.Conv1d(c, c, 5, padding=2), nn.ReLU(),
            nn.Conv1d(c, c, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(8), nn.Flatten(), nn.Linear(8 * c, 128), nn.ReLU(), nn.Linear(128, classes),
        )
        self.t = time.perf_counter()

    def training_step(self, batch, i):
        if self.global_step % 5 == 0:
            self.stats = ActivationStats(self.net).attach()
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        if self.global_step % 10 == 9:
            now = time.perf_counter()
            print(f"step {self.global_step + 1:5d} train_loss {loss.item():.4f} {320 / (now - self.t):.0f} parcels/s "
                  f"act {max(v[3] for v in self.stats.values.values()):.2f}", flush=True)
            self.t = now
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 3e-4)


if __name__ == "__main__":
    L.seed_everything(5)
    y = torch.randint(0, 14, (3200,))
    season = torch.sin(torch.linspace(0, 6.28, 64)[None, None] * (1 + y.view(-1, 1, 1) % 7) + y.view(-1, 1, 1))
    x = season * torch.rand(3200, 10, 1) + 0.7 * torch.randn(3200, 10, 64)
    trainer = L.Trainer(max_time={"minutes": 3.5}, max_epochs=-1, accelerator="cpu", devices=1, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Parcels(), DataLoader(TensorDataset(x, y), 32, shuffle=True))
