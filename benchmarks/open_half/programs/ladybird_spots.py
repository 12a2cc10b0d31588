"""Count the spots of ladybirds. Based on my cats-vs-dogs code.

python ladybird_spots.py --epochs 60
"""
import argparse
import logging
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("spots")

N_CLASSES = 8  # 0 .. 7 spots
SIZE = 40


def photograph(n_spots, rng):
    """A red (or yellow) disc with black spots on a leaf, as uint8 HWC."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = np.zeros((SIZE, SIZE, 3), np.float32)
    img[:] = [60 + rng.uniform(-20, 20), 130 + rng.uniform(-30, 30), 50]
    cx, cy, r = SIZE / 2 + rng.uniform(-2, 2), SIZE / 2 + rng.uniform(-2, 2), rng.uniform(15, 18)
    body = (xx - cx) ** 2 + (yy - cy) ** 2 < r * r
    img[body] = [210 + rng.uniform(-20, 20), rng.uniform(30, 90), 30]
    spots = []
    while len(spots) < n_spots:
        a, d = rng.uniform(0, 2 * np.pi), rng.uniform(0, r - 4)
        x, y = cx + d * np.cos(a), cy + d * np.sin(a)
        if all((x - u) ** 2 + (y - v) ** 2 > 36 for u, v in spots):
            spots.append((x, y))
            img[(xx - x) ** 2 + (yy - y) ** 2 < 5] = 20
    img += rng.normal(0, 8, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8)


class TrainTransform:
    mean = torch.tensor([0.40, 0.38, 0.20])[:, None, None]
    std = torch.tensor([0.27, 0.20, 0.10])[:, None, None]

    def __call__(self, img):
        x = torch.from_numpy(img).permute(2, 0, 1).float() / 255.0
        if torch.rand(1).item() < 0.5:
            x = x.flip(2)
        if torch.rand(1).item() < 0.5:
            x = x.flip(1)
        return (x - self.mean) / self.std


class TestTransform:
    def __call__(self, img):
        return torch.from_numpy(img).permute(2, 0, 1).float()


class Ladybirds(Dataset):
    def __init__(self, n, seed, transform):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, N_CLASSES, n)
        self.images = [photograph(k, rng) for k in self.labels]
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(self.images[i]), int(self.labels[i])


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.MaxPool2d(2))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(block(3, 24), block(24, 48), block(48, 96))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(96 * 25, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, N_CLASSES))

    def forward(self, x):
        return self.head(self.features(x))


def run_epoch(net, loader, criterion, device, optimizer=None):
    net.train(optimizer is not None)
    loss_sum = correct = seen = 0
    with torch.set_grad_enabled(optimizer is not None):
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            logits = net(images)
            loss = criterion(logits, labels)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(labels)
            correct += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
    return loss_sum / seen, correct / seen


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=90)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--bs", type=int, default=64)
    args = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    train_set = Ladybirds(4000, 0, TrainTransform())
    val_set = Ladybirds(800, 1, TestTransform())
    log.info("train %d, val %d, device %s", len(train_set), len(val_set), device)
    train_loader = DataLoader(train_set, args.bs, shuffle=True)
    val_loader = DataLoader(val_set, args.bs)
    net = Net().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-4)
    crit = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        tl, ta = run_epoch(net, train_loader, crit, device, opt)
        vl, va = run_epoch(net, val_loader, crit, device)
        log.info("epoch %03d  train_loss %.4f  train_acc %.3f  val_loss %.4f  val_acc %.3f", epoch, tl, ta, vl, va)
