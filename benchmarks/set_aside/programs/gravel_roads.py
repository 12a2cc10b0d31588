"""Road segmentation in aerial tiles (gravel / paved / background) with a small U-Net and DDP.

torchrun --standalone --nproc_per_node=2 gravel_roads.py
"""
import logging
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

logger = logging.getLogger("roads")


def is_main_process():
    return dist.get_rank() == 0


def synchronize():
    """Let no one read a file that is still being written."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.barrier()


def make_tiles(n, seed, size=48):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size]
    images = np.empty((n, 3, size, size), np.float32)
    masks = np.zeros((n, size, size), np.int64)
    for i in range(n):
        field = np.array([0.25, 0.45, 0.2]) + rng.uniform(-0.1, 0.1, 3)
        images[i] = field[:, None, None]
        for kind, colour in ((1, (0.65, 0.58, 0.45)), (2, (0.45, 0.45, 0.48))):
            if rng.random() < 0.75:
                a, b, w = rng.uniform(0, np.pi), rng.uniform(12, 36), rng.uniform(1.5, 3.5)
                bend = 4 * np.sin(x / rng.uniform(6, 12))
                on = np.abs(np.cos(a) * (x - b) + np.sin(a) * (y - b) + bend) < w
                masks[i][on] = kind
                images[i][:, on] = np.array(colour)[:, None]
        images[i] += rng.normal(0, 0.06, images[i].shape)
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(masks))


class Double(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(4, o), nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1, bias=False), nn.GroupNorm(4, o), nn.ReLU(),
        )


class UNet(nn.Module):
    def __init__(self, n_classes=3, w=16):
        super().__init__()
        self.d1, self.d2, self.d3 = Double(3, w), Double(w, 2 * w), Double(2 * w, 4 * w)
        self.u2, self.u1 = Double(6 * w, 2 * w), Double(3 * w, w)
        self.out = nn.Conv2d(w, n_classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a)


class Checkpointer:
    def __init__(self, folder):
        self.folder = folder
        self.best = -1.0

    def save(self, model, optimizer, epoch, name):
        path = os.path.join(self.folder, name)
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
        synchronize()
        logger.info("saved %s", name)


def mean_iou(model, loader, device):
    """Each rank sees its part; the sums are added up."""
    model.eval()
    inter, union = torch.zeros(3, device=device), torch.zeros(3, device=device)
    with torch.no_grad():
        for x, y in loader:
            pred, y = model(x.to(device)).argmax(1), y.to(device)
            for k in range(3):
                inter[k] += ((pred == k) & (y == k)).sum()
                union[k] += ((pred == k) | (y == k)).sum()
    dist.all_reduce(inter)
    dist.all_reduce(union)
    model.train()
    return (inter / union.clamp(min=1)).mean().item()


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO if is_main_process() else logging.WARNING,
        format="[%(asctime)s] %(name)s %(levelname)s: %(message)s",
    )
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    torch.manual_seed(17)
    folder = tempfile.mkdtemp(prefix="roads_")
    try:
        train, val = make_tiles(1600, 0), make_tiles(160, 1)
        sampler = DistributedSampler(train)
        train_loader = DataLoader(train, batch_size=16, sampler=sampler, drop_last=True)
        val_loader = DataLoader(val, batch_size=16, sampler=DistributedSampler(val, shuffle=False))
        model = DDP(UNet().to(device), device_ids=[local_rank] if device.type == "cuda" else None)
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        checkpointer = Checkpointer(folder)
        logger.info("%d tiles, %d ranks", len(train), dist.get_world_size())

        for epoch in range(1, 121):
            sampler.set_epoch(epoch)
            for i, (x, y) in enumerate(train_loader):
                loss = F.cross_entropy(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if i % 10 == 0:
                    logger.info("epoch %d iter %d/%d loss %.4f", epoch, i, len(train_loader), loss.item())
            if epoch % 5 == 0:
                iou = mean_iou(model, val_loader, device)
                logger.info("epoch %d mIoU %.4f", epoch, iou)
                if is_main_process() and iou > checkpointer.best:
                    checkpointer.best = iou
                    checkpointer.save(model, optimizer, epoch, "model_best.pth")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
