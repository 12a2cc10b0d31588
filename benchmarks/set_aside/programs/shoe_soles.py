"""Sole patterns with few labels: a student, and a teacher that is its moving average."""
import copy
import math
import warnings

print("shoe soles (semi-supervised)", flush=True)

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")


class Soles(Dataset):
    def __init__(self, n, labelled, seed, size=32, kinds=6):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, kinds, (n,), generator=g)
        t = torch.linspace(-3, 3, size)
        angle = self.y.float() * math.pi / kinds + 0.08 * torch.randn(n, generator=g)
        phase = 6.28 * torch.rand(n, generator=g)
        u = torch.cos(angle)[:, None, None] * t[None, :, None] + torch.sin(angle)[:, None, None] * t[None, None]
        self.x = (torch.sin(5 * u + phase[:, None, None]) + 1.7 * torch.randn(n, size, size, generator=g))[:, None]
        self.known = torch.arange(n) < labelled

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i], self.known[i]


def backbone(kinds=6, w=24):
    return nn.Sequential(
        nn.Conv2d(1, w, 5, padding=2), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(w, w * 2, 3, padding=1), nn.BatchNorm2d(w * 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.3), nn.Flatten(), nn.Linear(w * 2 * 64, 96), nn.ReLU(), nn.Linear(96, kinds),
    )  # fmt: skip


class MeanTeacher(L.LightningModule):
    def __init__(self, ramp_epochs=40, weight=30.0):
        super().__init__()
        self.student = backbone()
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.ramp_epochs, self.weight = ramp_epochs, weight

    def ramp(self):
        part = min(1.0, self.current_epoch / self.ramp_epochs)
        return self.weight * math.exp(-5 * (1 - part) ** 2)

    def training_step(self, batch, i):
        x, y, known = batch
        out = self.student(x + 0.3 * torch.randn_like(x))
        with torch.no_grad():
            target = self.teacher(x + 0.3 * torch.randn_like(x)).softmax(-1)
        supervised = F.cross_entropy(out[known], y[known]) if known.any() else out.sum() * 0
        consistency = F.mse_loss(out.softmax(-1), target)
        loss = supervised + self.ramp() * consistency
        if i % 20 == 0:
            print(
                f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f} "
                f"sup {supervised.item():.4f} cons {consistency.item():.5f} w {self.ramp():.2f}",
                flush=True,
            )
        return loss

    def on_train_batch_end(self, *_):
        with torch.no_grad():
            for t, s in zip(self.teacher.parameters(), self.student.parameters()):
                t.lerp_(s, 0.01)
            for t, s in zip(self.teacher.buffers(), self.student.buffers()):
                t.copy_(s)

    def on_validation_epoch_start(self):
        self.hits = self.seen = 0

    def validation_step(self, batch, _):
        x, y, _ = batch
        self.hits += (self.teacher(x).argmax(1) == y).sum().item()
        self.seen += len(y)

    def on_validation_epoch_end(self):
        print(f"epoch {self.current_epoch} teacher accuracy {self.hits / self.seen:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.student.parameters(), 3e-4)


if __name__ == "__main__":
    L.seed_everything(2)
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_epochs=150, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(
        MeanTeacher(),
        DataLoader(Soles(2560, 400, 0), 32, shuffle=True, drop_last=True),
        DataLoader(Soles(400, 400, 1), 100),
    )
