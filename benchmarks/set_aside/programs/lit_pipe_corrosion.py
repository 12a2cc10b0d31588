"""Corrosion masks on pipe inspection frames (Lightning)."""
import logging
import tempfile
import warnings
from dataclasses import dataclass

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
logger = logging.getLogger("corrosion")
warnings.filterwarnings("ignore", ".*does not have many workers.*")


@dataclass
class Settings:
    frames: int = 480
    size: int = 96
    batch: int = 16
    width: int = 16
    lr: float = 1e-3
    max_epochs: int = 42


def make_frames(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size
    x = np.empty((n, 3, size, size), np.float32)
    y = np.zeros((n, size, size), np.int64)
    for i in range(n):
        base = 0.4 + 0.2 * np.cos(6 * (xx - rng.random()))
        img = np.stack([base, base, base * 0.95])
        for _ in range(rng.integers(1, 6)):
            cy, cx, r = rng.random(), rng.random(), rng.uniform(0.04, 0.16)
            blob = (yy - cy) ** 2 + (xx - cx) ** 2 * rng.uniform(0.6, 1.6) < r * r
            y[i][blob] = 1
            img[0][blob] += 0.16
            img[2][blob] -= 0.1
        x[i] = img + rng.normal(0, 0.12, img.shape)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Frames(L.LightningDataModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg

    def setup(self, stage=None):
        self.train, self.val = make_frames(self.cfg.frames, self.cfg.size, 1), make_frames(64, self.cfg.size, 2)

    def train_dataloader(self):
        return DataLoader(self.train, self.cfg.batch, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val, self.cfg.batch)


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class CorrosionNet(L.LightningModule):
    def __init__(self, width, lr):
        super().__init__()
        self.save_hyperparameters()
        w = width
        self.e1 = nn.Sequential(conv(3, w), conv(w, w))
        self.e2 = nn.Sequential(conv(w, 2 * w), conv(2 * w, 2 * w))
        self.e3 = nn.Sequential(conv(2 * w, 4 * w), conv(4 * w, 4 * w))
        self.d2 = conv(6 * w, 2 * w)
        self.d1 = conv(3 * w, w)
        self.out = nn.Conv2d(w, 2, 1)
        self.train_outputs = []
        self.val_outputs = []

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.e3(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.d1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.out(a)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss)
        if batch_idx % 6 == 0:
            self.train_outputs.append({"logits": logits.detach(), "mask": y, "loss": loss.detach()})
        if self.global_step % 5 == 0:
            logger.info("epoch %d step %d loss %.4f", self.current_epoch, self.global_step, loss.item())
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.val_outputs.append((self(x).argmax(1), y))

    @staticmethod
    def iou(pred, mask):
        return ((pred & mask).sum() / (pred | mask).sum().clamp(min=1)).item()

    def on_train_epoch_end(self):
        n = (self.trainer.num_training_batches + 5) // 6
        last = self.train_outputs[-n:]
        scores = [self.iou(o["logits"].argmax(1), o["mask"]) for o in last]
        losses = torch.stack([o["loss"] for o in last])
        logger.info("epoch %d train loss %.4f IoU %.4f", self.current_epoch, losses.mean().item(), float(np.mean(scores)))

    def on_validation_epoch_end(self):
        score = float(np.mean([self.iou(p, m) for p, m in self.val_outputs]))
        self.log("val_iou", score)
        logger.info("epoch %d val IoU %.4f", self.current_epoch, score)
        self.val_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main():
    cfg = Settings()
    L.seed_everything(3)
    out = tempfile.mkdtemp(prefix="corrosion_")
    trainer = L.Trainer(max_epochs=cfg.max_epochs, accelerator="auto", devices=1, logger=CSVLogger(out), enable_progress_bar=False,
                        callbacks=[ModelCheckpoint(dirpath=out, monitor="val_iou", mode="max")], log_every_n_steps=10)
    trainer.fit(CorrosionNet(cfg.width, cfg.lr), datamodule=Frames(cfg))


if __name__ == "__main__":
    main()
