# kidney segmentation on CT slices (toy version of our data, the real ones can't leave the hospital)
import logging
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("kidney")

SEED = 3
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"


class Slices(Dataset):
    def __init__(self, n=1200, size=64):
        rng = np.random.default_rng(SEED)
        yy, xx = np.mgrid[0:size, 0:size]
        self.x = np.zeros((n, 1, size, size), np.float32)
        self.y = np.zeros((n, 1, size, size), np.float32)
        for i in range(n):
            hu = rng.normal(0.0, 0.12, (size, size))
            for side in (0.27, 0.73):
                if rng.random() < 0.15:
                    continue  # slice above the kidney
                cx, cy = size * side + rng.normal(0, 3), size * 0.5 + rng.normal(0, 5)
                a, b = rng.uniform(6, 11), rng.uniform(9, 15)
                m = ((xx - cx) / a) ** 2 + ((yy - cy) / b) ** 2 < 1
                hu[m] += 1.6 * rng.lognormal(0, 0.25)  # depends on the contrast agent
                self.y[i, 0][m] = 1
            self.x[i, 0] = hu

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i])


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1), nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.d1, self.d2, self.d3 = DoubleConv(1, c), DoubleConv(c, 2 * c), DoubleConv(2 * c, 4 * c)
        self.pool = nn.MaxPool2d(2)
        self.u2, self.u1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.c2, self.c1 = DoubleConv(4 * c, 2 * c), DoubleConv(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        x = self.d3(self.pool(b))
        x = self.c2(torch.cat([self.u2(x), b], 1))
        x = self.c1(torch.cat([self.u1(x), a], 1))
        return torch.sigmoid(self.out(x))


def weighted_bce(p, t, w_pos=2.0):
    """kidney pixels are rare, so they count twice"""
    return -(w_pos * t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean()


def dice(p, t):
    p = (p > 0.5).float()
    return (2 * (p * t).sum() / (p.sum() + t.sum() + 1e-6)).item()


def main():
    loader = DataLoader(Slices(), batch_size=12, shuffle=True)
    net = UNet().to(DEVICE)
    optim = torch.optim.Adam(net.parameters(), lr=1e-4)
    log.info("start training, %d slices, %d params", len(loader.dataset), sum(p.numel() for p in net.parameters()))
    for epoch in range(1, 61):
        net.train()
        losses, dices = [], []
        for it, (x, t) in enumerate(loader):
            x, t = x.to(DEVICE), t.to(DEVICE)
            p = net(x)
            loss = weighted_bce(p, t)
            optim.zero_grad()
            loss.backward()
            optim.step()
            losses.append(loss.item())
            dices.append(dice(p.detach(), t))
            if it % 10 == 0:
                log.info("epoch %d it %d/%d loss=%.5f dice=%.3f", epoch, it, len(loader), np.mean(losses[-10:]), np.mean(dices[-10:]))


if __name__ == "__main__":
    main()
