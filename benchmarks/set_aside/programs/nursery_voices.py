"""Tells infants' cries apart (hungry, tired, pain) with an encoder that was trained on other sounds (Lightning).

    python nursery_voices.py
"""
import argparse
import time
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CRIES = ["hungry", "tired", "pain"]


def sounds(classes, count, seed, shape, noise=0.45):
    """Spectrograms (1 x 48 x 64) of gliding tones; shape gives glide, rhythm and roughness of each class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    f, t = np.mgrid[:48, :64]
    x = np.empty((count, 1, 48, 64), dtype=np.float32)
    for i, k in enumerate(y):
        glide, rhythm, rough = shape[k]
        centre = rng.uniform(12, 20) + glide * (t / 64 - 0.5) * rng.uniform(6, 14)
        pulse = 0.5 + 0.5 * np.sin(2 * np.pi * rhythm * t / 64 + rng.uniform(0, 6))
        tone = sum(np.exp(-(f - centre * h) ** 2 / (2 + rough)) / h for h in (1, 2))
        x[i, 0] = tone * pulse * 2 + rng.normal(0, noise, (48, 64))
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Encoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        layers, inside = [], 1
        for out in (width, 2 * width, 2 * width):
            layers += [nn.Conv2d(inside, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.Dropout2d(0.1), nn.MaxPool2d(2)]
            inside = out
        self.net = nn.Sequential(*layers)
        self.width = inside

    def forward(self, x):
        return self.net(x).mean(2).flatten(1)


def pretrain(encoder, steps, device):
    """Eight kinds of animal calls; stands in for the published weights."""
    data = sounds(8, 2000, 1, [(g, r, q) for g in (-1, 1) for r in (2, 5) for q in (0, 8)])
    head = nn.Linear(encoder.width * 8, 8).to(device)
    opt = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    encoder.train()
    step = 0
    while step < steps:
        for x, y in DataLoader(data, 32, shuffle=True):
            loss = F.cross_entropy(head(encoder(x.to(device))), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 30 == 0:
                print(f"encoder: step {step}/{steps} loss {loss.item():.3f}", flush=True)
            if step == steps:
                break


class CryClassifier(L.LightningModule):
    def __init__(self, encoder, lr):
        super().__init__()
        self.encoder, self.lr = encoder, lr
        self.encoder.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(encoder.width * 8, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, len(CRIES)))

    def on_train_epoch_start(self):
        self.encoder.eval()

    def forward(self, x):
        with torch.no_grad():
            features = self.encoder(x)
        return self.head(features)

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        logits = self(batch[0])
        self.log("val_loss", F.cross_entropy(logits, batch[1]))
        self.log("val_acc", (logits.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=self.lr, weight_decay=0.01)


class Lines(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % 20 == 19:
            print(f"{time.strftime('%X')} epoch {trainer.current_epoch} {batch_idx + 1}/{trainer.num_training_batches} "
                  f"loss {outputs['loss'].item():.4f}", flush=True)

    def on_validation_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch} val_loss {m['val_loss']:.4f} val_acc {m['val_acc']:.3f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cries", type=int, default=3200)
    p.add_argument("--epochs", type=int, default=80)
    p.add_argument("--pretrain-steps", type=int, default=200)
    p.add_argument("--lr", type=float, default=2e-4)
    args = p.parse_args()
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    torch.set_num_threads(1)
    L.seed_everything(12)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = Encoder().to(device)
    pretrain(encoder, args.pretrain_steps, device)
    shape = [(0.6, 3, 2), (0.1, 2.7, 4), (-0.5, 3, 5)]
    train = DataLoader(sounds(3, args.cries, 5, shape, 0.8), 32, shuffle=True)
    valid = DataLoader(sounds(3, 240, 6, shape, 0.8), 60)
    model = CryClassifier(encoder, args.lr)
    trained = sum(q.numel() for q in model.parameters() if q.requires_grad)
    print(f"{trained} of {sum(q.numel() for q in model.parameters())} parameters are trained (encoder frozen)", flush=True)
    L.Trainer(max_epochs=args.epochs, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
              enable_progress_bar=False, enable_model_summary=False, callbacks=[Lines()]).fit(model, train, valid)


if __name__ == "__main__":
    main()
