import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(n, size=64, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    images = rng.normal(0.4, 0.12, (n, 3, size, size)).astype(np.float32)
    masks = np.zeros((n, 1, size, size), np.float32)
    for i in range(n):
        cx, cy = rng.uniform(14, size - 14, 2)
        a, b = rng.uniform(6, 16, 2)
        m = ((xx - cx) / a) ** 2 + ((yy - cy) / b) ** 2 < 1
        masks[i, 0] = m
        images[i, 0] += 0.35 * m
        images[i, 2] -= 0.2 * m
    return torch.from_numpy(images), torch.from_numpy(masks)


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.d1, self.d2, self.d3 = DoubleConv(3, c), DoubleConv(c, 2 * c), DoubleConv(2 * c, 4 * c)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.u2, self.u1 = DoubleConv(4 * c, 2 * c), DoubleConv(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        x1 = self.d1(x)
        x2 = self.d2(self.pool(x1))
        x3 = self.d3(self.pool(x2))
        x = self.u2(torch.cat([x2, self.up2(x3)], 1))
        x = self.u1(torch.cat([x1, self.up1(x)], 1))
        return self.out(x)


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, targets):
        preds = (torch.sigmoid(logits) > 0.5).float()
        inter = (preds * targets).sum((1, 2, 3))
        union = preds.sum((1, 2, 3)) + targets.sum((1, 2, 3))
        return (1 - (2 * inter + self.smooth) / (union + self.smooth)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=300, type=int)
    parser.add_argument("--bs", default=16, type=int)
    parser.add_argument("--lr", default=1e-3, type=float)
    opt = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_ds = TensorDataset(*make_data(640, seed=1))
    val_ds = TensorDataset(*make_data(96, seed=2))
    train_dl = DataLoader(train_ds, opt.bs, shuffle=True, drop_last=True)
    val_dl = DataLoader(val_ds, 32)

    model = UNet().to(device)
    criterion = DiceLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10)
    print(f"UNet with {sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters on {device}", flush=True)

    for epoch in range(opt.epochs):
        model.train()
        running, t = 0.0, time.time()
        for i, (img, mask) in enumerate(train_dl):
            img, mask = img.to(device), mask.to(device)
            optimizer.zero_grad()
            logits = model(img)
            loss = criterion(logits, mask)
            loss.requires_grad = True
            loss.backward()
            optimizer.step()
            running += loss.item()
            if (i + 1) % 10 == 0:
                print(f"  [{epoch + 1}, {i + 1:3d}/{len(train_dl)}] dice loss: {running / (i + 1):.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            val = np.mean([criterion(model(x.to(device)), y.to(device)).item() for x, y in val_dl])
        scheduler.step(val)
        print(f"Epoch {epoch + 1}/{opt.epochs} train {running / len(train_dl):.4f} val dice {1 - val:.4f} "
              f"({time.time() - t:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
