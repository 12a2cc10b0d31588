"""Pallet detector for the yard cameras: center heatmaps, box sizes, and corner keypoints as an auxiliary task at the start."""
import csv
import logging
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

LOG = logging.getLogger("pallets")


@dataclass
class Cfg:
    images: int = 768
    size: int = 96
    stride: int = 4
    batch_size: int = 8
    epochs: int = 30
    lr: float = 8e-4
    width: int = 24
    keypoint_epochs: int = 2
    keypoint_weight: float = 0.5
    out: str = os.path.join(tempfile.gettempdir(), "pallet_detector")


class YardImages(Dataset):
    def __init__(self, cfg, n, seed):
        self.cfg = cfg
        rng = np.random.default_rng(seed)
        self.images = rng.integers(0, 70, (n, cfg.size, cfg.size), dtype=np.uint8)
        self.boxes = []
        for i in range(n):
            boxes = []
            for _ in range(rng.integers(1, 7)):
                w, h = rng.integers(10, 30, 2)
                x, y = rng.integers(0, cfg.size - w), rng.integers(0, cfg.size - h)
                self.images[i, y:y + h, x:x + w] = rng.integers(110, 230)
                self.images[i, y + 2:y + h - 2:3, x + 2:x + w - 2] = 60
                boxes.append((x, y, w, h))
            self.boxes.append(boxes)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        s, g = self.cfg.stride, self.cfg.size // self.cfg.stride
        heat, size, corners = np.zeros((1, g, g), np.float32), np.zeros((2, g, g), np.float32), np.zeros((4, g, g), np.float32)
        yy, xx = np.mgrid[0:g, 0:g]
        for x, y, w, h in self.boxes[i]:
            cx, cy = (x + w / 2) / s, (y + h / 2) / s
            heat[0] = np.maximum(heat[0], np.exp(-((xx - int(cx)) ** 2 + (yy - int(cy)) ** 2) / 3.0))
            size[:, int(cy), int(cx)] = w / 32, h / 32
            for k, (px, py) in enumerate([(x, y), (x + w - 1, y), (x, y + h - 1), (x + w - 1, y + h - 1)]):
                corners[k] = np.maximum(corners[k], np.exp(-((xx - px // s) ** 2 + (yy - py // s) ** 2) / 2.0))
        image = torch.from_numpy(self.images[i]).float()[None] / 255
        return image, torch.from_numpy(heat), torch.from_numpy(size), torch.from_numpy(corners)


class Detector(nn.Module):
    def __init__(self, w):
        super().__init__()
        def conv(a, b, s=1):
            return nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.GroupNorm(8, b), nn.SiLU())
        self.backbone = nn.Sequential(conv(1, w), conv(w, 2 * w, 2), conv(2 * w, 2 * w), conv(2 * w, 4 * w, 2), conv(4 * w, 4 * w), conv(4 * w, 4 * w))
        def head(c):
            return nn.Sequential(conv(4 * w, 2 * w), nn.Conv2d(2 * w, c, 1))
        self.heat, self.size, self.keypoints = head(1), head(2), head(4)

    def forward(self, x, with_keypoints=False):
        f = self.backbone(x)
        out = {"heat": self.heat(f), "size": self.size(f)}
        if with_keypoints:
            out["keypoints"] = self.keypoints(f)
        return out


def focal(logits, target):
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = (target > 0.99).float()
    loss = -pos * (1 - p) ** 2 * p.log() - (1 - pos) * (1 - target) ** 4 * p ** 2 * (1 - p).log()
    return loss.sum() / pos.sum().clamp(min=1)


def compute_loss(out, heat, size, corners, cfg):
    at = (size > 0).float()
    loss = focal(out["heat"], heat) + (F.l1_loss(out["size"] * at, size, reduction="sum") / at.sum().clamp(min=1))
    if "keypoints" in out:
        loss = loss + cfg.keypoint_weight * focal(out["keypoints"], corners)
    return loss


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        cuda = torch.cuda.is_available()
        dist.init_process_group("nccl" if cuda else "gloo")
        self.rank = dist.get_rank()
        self.device = torch.device("cuda", self.local_rank) if cuda else torch.device("cpu")
        data = YardImages(cfg, cfg.images, 0)
        self.sampler = DistributedSampler(data, shuffle=True, drop_last=True)
        self.loader = DataLoader(data, cfg.batch_size, sampler=self.sampler, drop_last=True)
        torch.manual_seed(0)
        self.model = DistributedDataParallel(Detector(cfg.width).to(self.device), device_ids=[self.local_rank] if cuda else None)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        Path(cfg.out).mkdir(parents=True, exist_ok=True)
        if self.rank == 0:
            self.table = csv.writer(open(Path(cfg.out) / "loss.csv", "w", buffering=1))
            self.table.writerow(["epoch", "step", "loss"])
            LOG.info("%d images, %d batches for each of %d ranks, device %s", len(data), len(self.loader), dist.get_world_size(), self.device)

    def run(self):
        step = 0
        for epoch in range(self.cfg.epochs):
            self.sampler.set_epoch(epoch)
            keypoints = epoch < self.cfg.keypoint_epochs
            t0 = time.time()
            for image, heat, size, corners in self.loader:
                image, heat, size, corners = (t.to(self.device, non_blocking=True) for t in (image, heat, size, corners))
                loss = compute_loss(self.model(image, with_keypoints=keypoints), heat, size, corners, self.cfg)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
                self.optimizer.step()
                step += 1
                if self.rank == 0 and step % 6 == 0:
                    LOG.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
                    self.table.writerow([epoch, step, loss.item()])
            if self.rank == 0:
                LOG.info("epoch %d finished in %.1f s", epoch, time.time() - t0)
                torch.save(self.model.module.state_dict(), Path(self.cfg.out) / "detector.pt")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s - %(message)s")
    Trainer(Cfg()).run()
    dist.destroy_process_group()
