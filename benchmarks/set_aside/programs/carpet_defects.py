#!/usr/bin/env python3
# segmentation of weaving defects, 2 GPUs in the plant's workstation
import argparse
import logging
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Carpets(Dataset):
    def __init__(self, n, seed, size=64):
        self.n, self.seed, self.size = n, seed, size
        yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
        self.yy, self.xx = yy, xx

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100_000 + i)
        weave = np.sin(self.xx * rng.uniform(0.6, 1.1)) * np.sin(self.yy * rng.uniform(0.6, 1.1))
        img = (weave + rng.normal(0, 0.3, weave.shape)).astype(np.float32)
        mask = np.zeros_like(img)
        for _ in range(rng.integers(0, 4)):
            cx, cy, a = rng.uniform(8, self.size - 8), rng.uniform(8, self.size - 8), rng.uniform(0, np.pi)
            u = (self.xx - cx) * np.cos(a) + (self.yy - cy) * np.sin(a)
            v = -(self.xx - cx) * np.sin(a) + (self.yy - cy) * np.cos(a)
            hit = (u / rng.uniform(5, 12)) ** 2 + (v / rng.uniform(1.5, 3)) ** 2 < 1
            img[hit] = rng.normal(1.7, 0.2, hit.sum())
            mask[hit] = 1
        return torch.from_numpy(img)[None], torch.from_numpy(mask)[None]


class FCN(nn.Module):
    def __init__(self, c=20):
        super().__init__()

        def cb(i, o, d=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=d, dilation=d, bias=False), nn.GroupNorm(4, o), nn.ReLU())

        self.net = nn.Sequential(cb(1, c), cb(c, c), cb(c, c, 2), cb(c, c, 4), cb(c, c), nn.Conv2d(c, 1, 1))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    inter = union = 0.0
    for x, m in loader:
        p = model(x.to(device)) > 0
        m = m.to(device) > 0.5
        inter += (p & m).sum().item()
        union += (p | m).sum().item()
    return inter / max(union, 1)


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", default=100, type=int)
    ap.add_argument("--bs", default=12, type=int)
    ap.add_argument("--train-size", default=960, type=int)
    ap.add_argument("--val-size", default=2400, type=int)
    args = ap.parse_args(argv)

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, stream=sys.stdout, format="%(asctime)s | %(message)s")
    log = logging.getLogger("carpet")
    device = torch.device("cpu")
    torch.manual_seed(0)

    train = Carpets(args.train_size, 1)
    sampler = DistributedSampler(train)
    train_loader = DataLoader(train, args.bs, sampler=sampler, drop_last=True)
    val_loader = DataLoader(Carpets(args.val_size, 2), args.bs)
    model = DDP(FCN().to(device))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(6.0))
    log.info("ranks: %d, batches per epoch: %d, pid %d", dist.get_world_size(), len(train_loader), os.getpid())

    best = 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for i, (x, m) in enumerate(train_loader):
            loss = crit(model(x.to(device)), m.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                log.info("epoch %d  %d/%d  loss %.4f", epoch, i, len(train_loader), loss.item())
        if rank == 0:
            iou = evaluate(model.module, val_loader, device)
            best = max(best, iou)
            log.info("epoch %d  val IoU %.4f  (best %.4f)", epoch, iou, best)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
