# shelf_scans: find the facings on a shelf photo (center heatmaps), store pilot 2
import math
import sys

import torch
from torch import nn, optim
import torch.nn.functional as F

CFG = dict(n_products=8, image=96, batch=8, epochs=36, steps=120, lr=5e-4, width=36)


def photo_batch(g, n, size, k):
    """Draws n shelves: products are bars of a typical width and brightness."""
    img = 0.1 * torch.randn(n, 3, size, size, generator=g)
    heat = torch.zeros(n, k, size // 2, size // 2)
    for b in range(n):
        for _ in range(6):
            c = int(torch.randint(0, k, (1,), generator=g))
            x, y = (int(v) for v in torch.randint(10, size - 10, (2,), generator=g))
            w, h = 3 + c % 4, 4 + c // 2
            img[b, c % 3, y - h : y + h, x - w : x + w] += 0.5 + 0.1 * c
            heat[b, c, y // 2, x // 2] = 1.0
    soft = F.max_pool2d(heat, 3, 1, 1) * 0.5
    return img, torch.maximum(heat, soft)


class ShelfNet(nn.Module):
    def __init__(self, k, w):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(3, w, 3, 2, 1), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, w, 3, 1, 1), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, w * 2, 3, 1, 2, dilation=2), nn.BatchNorm2d(w * 2), nn.ReLU(),
        )
        self.hm = nn.Conv2d(w * 2, k, 1)
        nn.init.constant_(self.hm.bias, -4.0)

    def forward(self, x):
        return self.hm(self.enc(x))


class EpochMeter(object):
    def __init__(self):
        self.loss = 0.0
        self.n = 0
        self.heatmaps = []

    def add(self, loss, heat):
        self.loss += loss
        self.n += 1
        self.heatmaps.append(heat)   # for the peak statistics at the end of the epoch

    def peaks(self):
        last = torch.cat(self.heatmaps[-20:])
        return (last == F.max_pool2d(last, 3, 1, 1)).logical_and(last > 0.3).sum().item() / len(last)

    def reset(self):
        self.loss = 0.0
        self.n = 0
        self.heatmap = []


class ShelfTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = ShelfNet(cfg["n_products"], cfg["width"])
        self.opt = optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.meter = EpochMeter()
        self.gen = torch.Generator().manual_seed(0)

    def criterion(self, logits, target):
        p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
        pos = target.eq(1).float()
        neg = (1 - target).pow(4) * (1 - pos)
        loss = -(pos * (1 - p).pow(2) * p.log() + neg * p.pow(2) * (1 - p).log())
        return loss.sum() / pos.sum()

    def run_epoch(self, epoch):
        self.net.train()
        for it in range(self.cfg["steps"]):
            img, target = photo_batch(self.gen, self.cfg["batch"], self.cfg["image"], self.cfg["n_products"])
            logits = self.net(img)
            loss = self.criterion(logits, target)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.meter.add(loss.item(), logits.detach().sigmoid())
            if it % 20 == 0:
                sys.stdout.write("[%02d][%3d/%3d] focal %.4f\n" % (epoch, it, self.cfg["steps"], loss.item()))
        print("== epoch %02d mean %.4f peaks/photo %.1f" % (epoch, self.meter.loss / self.meter.n, self.meter.peaks()))
        self.meter.reset()


if __name__ == "__main__":
    torch.manual_seed(0)
    t = ShelfTrainer(CFG)
    print("params", sum(p.numel() for p in t.net.parameters()), "log-batch", math.log2(CFG["batch"]))
    for e in range(CFG["epochs"]):
        t.run_epoch(e)
