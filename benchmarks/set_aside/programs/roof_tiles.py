#!/usr/bin/env python3
"""Damaged roof tiles in drone pictures (semantic segmentation, 4 classes).

torchrun --standalone --nproc-per-node=2 roof_tiles.py train.lr=0.001 val.every=100
"""
import logging
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchmetrics.classification import MulticlassJaccardIndex

cfg = {"train.lr": 1e-3, "train.epochs": 40, "train.batch": 8, "val.every": 100, "data.n": 2000, "data.size": 64}
for item in sys.argv[1:]:
    key, _, value = item.partition("=")
    cfg[key] = type(cfg[key])(value)


class Roofs(Dataset):
    def __init__(self, n, offset):
        self.n, self.offset = n, offset

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.offset + i)
        s = cfg["data.size"]
        y, x = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
        tiles = ((x // 8 + (y // 6) % 2) % 2).float()
        mask = torch.zeros(s, s, dtype=torch.long)
        img = torch.stack([0.6 + 0.1 * tiles, 0.3 + 0.1 * tiles, 0.25 + 0.05 * tiles])
        for kind in (1, 2, 3):  # broken, moss, missing
            cx, cy, r = (torch.rand(3, generator=g) * torch.tensor([s, s, 10.0])).tolist()
            spot = (x - cx) ** 2 + (y - cy) ** 2 < (4 + r) ** 2
            mask[spot] = kind
            img[:, spot] += torch.tensor([[0.0, -0.1, 0.2], [-0.3, 0.2, 0.0], [-0.4, -0.2, -0.1]])[kind - 1][:, None]
        return img + 0.12 * torch.randn(img.shape, generator=g), mask


class SegNet(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        def c(i, o, s=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        self.a, self.b, self.c = c(3, w), c(w, 2 * w, 2), c(2 * w, 4 * w, 2)
        self.d, self.e = c(6 * w, 2 * w), c(3 * w, w)
        self.out = nn.Conv2d(w, 4, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        d = self.d(torch.cat([b, F.interpolate(self.c(b), scale_factor=2)], 1))
        return self.out(self.e(torch.cat([a, F.interpolate(d, scale_factor=2)], 1)))


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    miou = MulticlassJaccardIndex(num_classes=4).to(device)
    for x, y in loader:
        miou.update(model(x.to(device)).argmax(1), y.to(device))
    value = miou.compute().item()
    model.train()
    return value


def main():
    rank = int(os.environ["RANK"])
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s | %(message)s")
    log = logging.getLogger("roofs")
    torch.manual_seed(3)
    train_set = Roofs(cfg["data.n"], 0)
    sampler = DistributedSampler(train_set)
    train = DataLoader(train_set, cfg["train.batch"], sampler=sampler, drop_last=True)
    val = DataLoader(Roofs(160, 10**6), 16)
    model = DistributedDataParallel(SegNet().to(device), device_ids=[device.index] if gpu else None)
    opt = torch.optim.AdamW(model.parameters(), cfg["train.lr"])
    log.info("config %s", cfg)
    step = 0
    for epoch in range(cfg["train.epochs"]):
        sampler.set_epoch(epoch)
        for x, y in train:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            if step % 10 == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
            if step % cfg["val.every"] == 0 and rank == 0:
                log.info("step %d mIoU %.4f", step, validate(model.module, val, device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
