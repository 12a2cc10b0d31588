import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", category=UserWarning)
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


def make_scans(n, size=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    imgs, masks = torch.empty(n, 1, size, size), torch.empty(n, size, size, dtype=torch.long)
    for i in range(n):
        m = torch.zeros(size, size, dtype=torch.long)
        for c in (1, 2):
            cx, cy = (torch.rand(2, generator=g) * 0.6 + 0.2) * size
            rx, ry = (torch.rand(2, generator=g) * 0.12 + 0.08) * size
            m[((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1] = c
        masks[i] = m
        imgs[i, 0] = m.float() * 0.5 + 0.6 * torch.randn(size, size, generator=g)
    return TensorDataset(imgs, masks)


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, n_classes, w=60):
        super().__init__()
        self.d1, self.d2, self.d3 = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.u2, self.u1 = double(6 * w, 2 * w), double(3 * w, w)
        self.out = nn.Conv2d(w, n_classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


class LungSegmenter(L.LightningModule):
    def __init__(self, n_classes=3, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = UNet(n_classes)
        self.training_step_outputs = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.training_step_outputs.append({"loss": loss, "logits": logits, "target": y})
        if batch_idx % 5 == 0:
            print(f"[train] epoch={self.current_epoch} batch={batch_idx} loss={loss.item():.4f}", flush=True)
        return loss

    def on_train_epoch_end(self):
        n = self.trainer.num_training_batches
        last = self.training_step_outputs[-n:]
        inter, union = torch.zeros(3), torch.zeros(3)
        for o in last:
            p = o["logits"].argmax(1)
            for c in range(3):
                inter[c] += ((p == c) & (o["target"] == c)).sum().item()
                union[c] += ((p == c) | (o["target"] == c)).sum().item()
        mean_loss = torch.stack([o["loss"].detach() for o in last]).mean()
        print(f"[train] epoch={self.current_epoch} done: loss={mean_loss:.4f} mIoU={(inter / union).mean():.4f}", flush=True)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self(x), y), on_epoch=True)

    def on_validation_epoch_end(self):
        v = self.trainer.callback_metrics.get("val_loss")
        if v is not None and not self.trainer.sanity_checking:
            print(f"[val]   epoch={self.current_epoch} val_loss={v:.4f}", flush=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, 25)}


if __name__ == "__main__":
    L.seed_everything(11)
    train = DataLoader(make_scans(200, seed=1), batch_size=8, shuffle=True, drop_last=True)
    val = DataLoader(make_scans(48, seed=2), batch_size=16)
    trainer = L.Trainer(max_epochs=25, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(LungSegmenter(), train, val)
