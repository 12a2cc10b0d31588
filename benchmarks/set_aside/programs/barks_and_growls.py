# Dog vocalisations -> 8 situations (doorbell, stranger, play, alone, ...), log mel spectrograms
# adapted from my ESC-50 script
import math
import os
import tempfile
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class CFG:
    n_classes: int = 8
    n_mels: int = 40
    frames: int = 96
    n_train: int = 2400
    n_val: int = 480
    bs: int = 48
    lr: float = 8e-4
    epochs: int = 120


cfg = CFG()
torch.manual_seed(11)
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synth(n, seed):
    """stand-in for the recordings: harmonics + formant + bark rate per class, in dB like the output of AmplitudeToDB"""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(cfg.n_classes, (n,), generator=g)
    mel = torch.arange(cfg.n_mels).view(1, -1, 1)
    t = torch.arange(cfg.frames).view(1, 1, -1)
    f0 = (6 + 3 * (y % 4)).view(-1, 1, 1) + torch.randn(n, 1, 1, generator=g)
    rate = (0.15 + 0.2 * (y // 4)).view(-1, 1, 1) * (1 + 0.1 * torch.randn(n, 1, 1, generator=g))
    phase = torch.rand(n, 1, 1, generator=g) * 2 * math.pi
    env = torch.sigmoid(4 * torch.sin(rate * t + phase))
    spec = sum(torch.exp(-((mel - k * f0) ** 2) / 4) / k for k in (1, 2, 3)) * env
    spec = -62 + 38 * spec + 9 * torch.randn(n, cfg.n_mels, cfg.frames, generator=g)
    return spec.unsqueeze(1), y


folder = tempfile.mkdtemp(prefix="barks_")
for split, n, seed in (("train", cfg.n_train, 1), ("val", cfg.n_val, 2)):
    torch.save(synth(n, seed), os.path.join(folder, split + ".pt"))


def get_loaders():
    xtr, ytr = torch.load(os.path.join(folder, "train.pt"))
    xva, yva = torch.load(os.path.join(folder, "val.pt"))
    mean, std = xtr.mean(), xtr.std()
    xtr = (xtr - mean) / std
    train = DataLoader(TensorDataset(xtr, ytr), cfg.bs, shuffle=True)
    val = DataLoader(TensorDataset(xva, yva), 120)
    return train, val


class BarkNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for o in (16, 32, 64):
            layers += [nn.Conv2d(c, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
            c = o
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, cfg.n_classes))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


@torch.no_grad()
def validate(model, loader, crit):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    for x, y in loader:
        x, y = x.to(dev), y.to(dev)
        out = model(x)
        loss += crit(out, y).item() * len(y)
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hit / n


train, val = get_loaders()
model = BarkNet().to(dev)
crit = nn.CrossEntropyLoss()
opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
print(cfg)
for epoch in range(cfg.epochs):
    model.train()
    t0, tot, hit, n = time.time(), 0.0, 0, 0
    for x, y in train:
        x, y = x.to(dev), y.to(dev)
        opt.zero_grad(set_to_none=True)
        out = model(x)
        loss = crit(out, y)
        loss.backward()
        opt.step()
        tot += loss.item() * len(y)
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    vl, va = validate(model, val, crit)
    print(
        f"[{epoch + 1:02d}/{cfg.epochs}] train_loss: {tot / n:.4f} train_acc: {hit / n:.3f} "
        f"val_loss: {vl:.4f} val_acc: {va:.3f} ({time.time() - t0:.1f}s)"
    )
