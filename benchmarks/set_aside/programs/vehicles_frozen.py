"""Boxes around vehicles. As usual in detection, the backbone's batch norms stay frozen (small batches), and so does its stem."""
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_003 + i)
        img = 0.3 * torch.randn(3, 48, 48, generator=g)
        w, h = (6 + 14 * torch.rand(2, generator=g)).tolist()
        x, y = (torch.rand(2, generator=g) * 26).tolist()
        kind = int(torch.randint(0, 3, (1,), generator=g))
        img[kind, int(y):int(y + h), int(x):int(x + w)] += 1.5
        return img, torch.tensor([x, y, w, h]) / 48, kind


class Detector(L.LightningModule):
    def __init__(self, c=32):
        super().__init__()
        conv = lambda i, o, s: nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.ReLU())  # noqa: E731
        self.backbone = nn.Sequential(conv(3, c, 1), conv(c, c, 2), conv(c, 2 * c, 2), conv(2 * c, 2 * c, 2))
        self.neck = nn.Sequential(nn.Flatten(), nn.Linear(2 * c * 36, 256), nn.ReLU())
        self.box, self.kind = nn.Linear(256, 4), nn.Linear(256, 3)
        for p in self.backbone[0].parameters():
            p.requires_grad = False
        self.began = time.time()

    def train(self, mode=True):
        super().train(mode)
        for m in self.backbone.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        return self

    def _losses(self, batch):
        img, box, kind = batch
        h = self.neck(self.backbone(img))
        return nn.functional.l1_loss(self.box(h).sigmoid(), box), nn.functional.cross_entropy(self.kind(h), kind)

    def training_step(self, batch, i):
        box, kind = self._losses(batch)
        loss = 5 * box + kind
        if i % 10 == 0:
            print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f} (box {box.item():.4f}, kind {kind.item():.4f})", flush=True)
        return loss

    def on_validation_epoch_start(self):
        self.seen = []

    def validation_step(self, batch, i):
        self.seen.append(torch.stack(self._losses(batch)))

    def on_validation_epoch_end(self):
        box, kind = torch.stack(self.seen).mean(0).tolist()
        print(f"epoch {self.current_epoch} validation: box {box:.4f} kind {kind:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], 5e-4)


if __name__ == "__main__":
    L.seed_everything(0)
    trainer = L.Trainer(max_time={"seconds": 205}, max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(Detector(), DataLoader(Scenes(1200, 1), 16, shuffle=True), DataLoader(Scenes(128, 2), 64))
