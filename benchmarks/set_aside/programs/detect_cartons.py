"""Anchor-free detector for cartons on the conveyor belt."""
import argparse
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(format="[%(asctime)s] %(levelname)s %(message)s", level=logging.INFO)
logger = logging.getLogger(__name__)


class ConveyorDataset(Dataset):
    def __init__(self, n=6000, size=128, seed=5):
        self.size = size
        g = np.random.default_rng(seed)
        self.counts = 1 + (g.random(n) < 0.0005).astype(int)
        self.seeds = g.integers(0, 2 ** 31, n)

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, i):
        g = np.random.default_rng(self.seeds[i])
        img = g.normal(0.3, 0.05, (3, self.size, self.size)).astype(np.float32)
        boxes = []
        for _ in range(self.counts[i]):
            w, h = g.integers(20, 50, 2)
            x, y = g.integers(0, self.size - w), g.integers(0, self.size - h)
            img[:, y:y + h, x:x + w] += np.array([0.4, 0.3, 0.15], np.float32)[:, None, None]
            boxes.append([x, y, x + w, y + h])
        boxes = torch.tensor(boxes, dtype=torch.float32) / self.size
        return torch.from_numpy(img), {"boxes": boxes, "labels": torch.zeros(len(boxes), dtype=torch.long)}


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.SiLU())


class Detector(nn.Module):
    def __init__(self, grid=8):
        super().__init__()
        self.grid = grid
        self.backbone = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), conv(32, 48, 2), conv(48, 64, 2), conv(64, 64))
        self.head = nn.Conv2d(64, 5, 1)

    def forward(self, x):
        return self.head(self.backbone(x)).flatten(2).transpose(1, 2)

    def loss(self, pred, boxes):
        B, n, _ = boxes.shape
        cx, cy = (boxes[..., 0] + boxes[..., 2]) / 2, (boxes[..., 1] + boxes[..., 3]) / 2
        cell = (cy * self.grid).long().clamp(max=self.grid - 1) * self.grid + (cx * self.grid).long().clamp(max=self.grid - 1)
        obj = torch.zeros(pred.shape[:2], device=pred.device).scatter_(1, cell, 1.0)
        picked = pred[..., 1:].gather(1, cell[..., None].expand(B, n, 4)).sigmoid()
        return F.binary_cross_entropy_with_logits(pred[..., 0], obj), F.l1_loss(picked, boxes)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--epochs", type=int, default=30)
    a = ap.parse_args()
    torch.manual_seed(9)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ds = ConveyorDataset()
    dl = DataLoader(ds, a.bs, shuffle=True, num_workers=a.workers, drop_last=True)
    model = Detector().to(device)
    opt = torch.optim.AdamW(model.parameters(), a.lr)
    logger.info("%d images, %d batches per epoch, device=%s", len(ds), len(dl), device)
    for ep in range(a.epochs):
        model.train()
        for i, (img, tgt) in enumerate(dl):
            obj, box = model.loss(model(img.to(device)), tgt["boxes"].to(device))
            loss = obj + 5 * box
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                logger.info("ep %d it %d/%d loss %.4f (obj %.4f box %.4f)", ep, i, len(dl), loss.item(), obj.item(), box.item())
    torch.save(model.state_dict(), "/tmp/cartons.pt")


if __name__ == "__main__":
    main()
