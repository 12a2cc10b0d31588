"""Nuclei segmentation, ported to Lightning 2.x (training_epoch_end -> on_train_epoch_end)."""
print("nuclei segmentation", flush=True)
import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Nuclei(Dataset):
    def __init__(self, n, size=96):
        self.n, self.size = n, size
        r = torch.arange(size)
        self.yy, self.xx = torch.meshgrid(r, r, indexing="ij")

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        c = torch.rand(8, 3, generator=g)
        d = (self.yy[None] - c[:, 0, None, None] * self.size) ** 2 + (self.xx[None] - c[:, 1, None, None] * self.size) ** 2
        mask = (d < ((4 + 6 * c[:, 2]) ** 2)[:, None, None]).any(0).float()
        img = 0.7 * mask[None].repeat(3, 1, 1) + 0.5 * torch.randn(3, self.size, self.size, generator=g)
        return img, mask


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(pl.LightningModule):
    def __init__(self, w=12, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.d1, self.d2, self.mid = conv(3, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.u2, self.u1, self.out = conv(6 * w, 2 * w), conv(3 * w, w), nn.Conv2d(w, 1, 1)
        self.training_step_outputs = []

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        return self.out(self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))).squeeze(1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        p = logits.sigmoid()
        dice = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
        loss = F.binary_cross_entropy_with_logits(logits, y) + dice
        self.training_step_outputs.append({"loss": loss.detach(), "preds": p.detach(), "targets": y,
                                           "panel": x.mean(1)})
        if batch_idx % 10 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx}/{self.trainer.num_training_batches} loss {loss.item():.4f}", flush=True)
        return loss

    def on_train_epoch_end(self):
        outs = self.training_step_outputs
        loss = torch.stack([o["loss"] for o in outs]).mean()
        inter = sum(((o["preds"] > 0.5) & (o["targets"] > 0.5)).sum() for o in outs)
        union = sum(((o["preds"] > 0.5) | (o["targets"] > 0.5)).sum() for o in outs)
        self.log("train_iou", inter / union)
        print(f"epoch {self.current_epoch}: mean loss {loss:.4f}, IoU {inter / union:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    pl.seed_everything(1)
    loader = DataLoader(Nuclei(4000), batch_size=8, shuffle=True, drop_last=True)
    trainer = pl.Trainer(max_steps=2600, max_epochs=-1, accelerator="auto", devices=1, logger=False,
                         enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(UNet(), loader)
