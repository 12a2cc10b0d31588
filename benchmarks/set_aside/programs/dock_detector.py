"""Crates and forklifts on the dock cameras. torchrun --nproc-per-node=N dock_detector.py [config.yaml]"""
import csv
import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import yaml
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

logger = logging.getLogger("dock")
CLASSES = 2


class DockImages(Dataset):
    def __init__(self, n, canvas, max_objects, seed):
        rng = np.random.default_rng(seed)
        self.images = rng.integers(0, 60, (n, canvas, canvas), dtype=np.uint8)
        self.targets = []
        for i in range(n):
            objects = []
            for _ in range(rng.integers(1, max_objects + 1)):
                c, s = rng.integers(0, CLASSES), int(rng.integers(10, 28))
                h = s if c == 0 else max(8, s // 2)
                x, y = rng.integers(0, canvas - s), rng.integers(0, canvas - h)
                self.images[i, y:y + h, x:x + s] = rng.integers(120, 250)
                if c == 1:
                    self.images[i, y:y + h:2, x:x + s] = 30
                objects.append([(x + s / 2) / canvas, (y + h / 2) / canvas, s / canvas, h / canvas, c])
            self.targets.append(torch.tensor(objects, dtype=torch.float32))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]).float()[None] / 255, self.targets[i]


def collate(batch):
    images, targets = zip(*batch)
    return torch.stack(images), list(targets)


class DockNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        def conv(a, b, s=1):
            return nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.GroupNorm(8, b), nn.SiLU())
        w = width
        self.body = nn.Sequential(conv(1, w), conv(w, 2 * w, 2), conv(2 * w, 2 * w), conv(2 * w, 4 * w, 2), conv(4 * w, 4 * w), conv(4 * w, 6 * w), conv(6 * w, 6 * w))
        self.heat, self.box = nn.Conv2d(6 * w, CLASSES, 1), nn.Conv2d(6 * w, 2, 1)
        nn.init.constant_(self.heat.bias, -4.0)

    def forward(self, x):
        f = self.body(x)
        return self.heat(f), self.box(f)


def encode(targets, grid, device):
    heat = torch.zeros(len(targets), CLASSES, grid, grid)
    size = torch.zeros(len(targets), 2, grid, grid)
    ax = torch.arange(grid)
    for b, t in enumerate(targets):
        for x, y, w, h, c in t.tolist():
            gx, gy = min(int(x * grid), grid - 1), min(int(y * grid), grid - 1)
            bump = torch.exp(-((ax[None, :] - gx) ** 2 + (ax[:, None] - gy) ** 2) / 2.5)
            heat[b, int(c)] = torch.maximum(heat[b, int(c)], bump)
            size[b, :, gy, gx] = torch.tensor([w, h]) * 4
    return heat.to(device), size.to(device)


def criterion(heat, box, heat_t, size_t):
    p = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = (heat_t > 0.999).float()
    focal = -(pos * (1 - p) ** 2 * p.log() + (1 - pos) * (1 - heat_t) ** 4 * p ** 2 * (1 - p).log()).sum() / pos.sum().clamp(min=1)
    at = (size_t > 0).float()
    return focal + ((box - size_t).abs() * at).sum() / at.sum().clamp(min=1)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    counts = torch.zeros(3, device=device)
    for images, targets in loader:
        heat, _ = model.module(F.interpolate(images.to(device), size=(96, 96), mode="bilinear", align_corners=False))
        p = heat.sigmoid()
        peaks = (p == F.max_pool2d(p, 3, 1, 1)) & (p > 0.35)
        want, _ = encode(targets, heat.shape[-1], device)
        near = F.max_pool2d((want > 0.999).float(), 3, 1, 1) > 0
        counts += torch.stack([(peaks & near).sum(), peaks.sum(), (want > 0.999).sum()]).float()
    dist.all_reduce(counts)
    model.train()
    tp, found, real = counts.tolist()
    return tp / max(found, 1), min(1.0, tp / max(real, 1))


def main():
    cfg = yaml.safe_load(open(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".yaml")))
    local_rank, cuda = int(os.environ["LOCAL_RANK"]), torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.ERROR, format="%(asctime)s %(name)s: %(message)s")
    d, t = cfg["data"], cfg["train"]
    torch.manual_seed(0)
    train, val = DockImages(d["images"], d["canvas"], d["max_objects"], 0), DockImages(120, d["canvas"], d["max_objects"], 1)
    sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    loader = DataLoader(train, t["batch_size"], sampler=sampler, collate_fn=collate, drop_last=True)
    val_loader = DataLoader(val, 12, sampler=DistributedSampler(val, shuffle=False), collate_fn=collate)
    model = DDP(DockNet(**cfg["model"]).to(device), device_ids=[local_rank] if cuda else None)
    opt = torch.optim.AdamW(model.parameters(), lr=t["lr"], weight_decay=1e-4)
    total = t["epochs"] * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / t["warmup_steps"], 1.0) * (1 - s / total))
    size_rng = random.Random(5)   # the same on all ranks
    out = Path(tempfile.gettempdir()) / "dock_detector"
    out.mkdir(exist_ok=True)
    table = csv.writer(open(out / "metrics.csv", "w", buffering=1)) if rank == 0 else None
    logger.info("%d images, %d steps per epoch, %d ranks", len(train), len(loader), dist.get_world_size())
    step, size = 0, t["sizes"][0]
    for epoch in range(t["epochs"]):
        sampler.set_epoch(epoch)
        t0 = time.time()
        for images, targets in loader:
            if step % t["resize_every"] == 0:
                size = size_rng.choice(t["sizes"])
            images = F.interpolate(images.to(device), size=(size, size), mode="bilinear", align_corners=False)
            heat, box = model(images)
            loss = criterion(heat, box, *encode(targets, heat.shape[-1], device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            step += 1
            if step % 10 == 0:
                logger.info("epoch %d step %d size %d objects %d loss %.4f lr %.1e", epoch, step, size, sum(map(len, targets)), loss.item(), sched.get_last_lr()[0])
        precision, recall = evaluate(model, val_loader, device)
        logger.info("epoch %d precision %.3f recall %.3f in %.1f s", epoch, precision, recall, time.time() - t0)
        if rank == 0:
            table.writerow([epoch, step, loss.item(), precision, recall])
            tmp = out / "last.pt.tmp"
            torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, tmp)
            tmp.rename(out / "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
