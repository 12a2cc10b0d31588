"""Cone detection for the student racing car. One anchor-free grid head on a small backbone, two workers by mp.spawn."""
import os
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

GRID, CELL = 10, 8
SEED = 42


def set_seed(seed):
    # reproducibility
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Track(Dataset):
    """80 x 80 frames with up to four cones (three colours)."""

    colors = torch.tensor([[0.1, 0.2, 0.9], [0.9, 0.8, 0.1], [0.9, 0.4, 0.1]])

    def __init__(self, n):
        self.frames = [self.draw(i) for i in range(n)]

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        return self.frames[i]

    def draw(self, i):
        g = torch.Generator().manual_seed(i)
        size = GRID * CELL
        img = 0.4 + 0.12 * torch.randn(3, size, size, generator=g)
        obj = torch.zeros(GRID, GRID)
        off = torch.zeros(2, GRID, GRID)
        cls = torch.zeros(GRID, GRID, dtype=torch.long)
        for _ in range(int(torch.randint(1, 5, (), generator=g))):
            cx, cy = (8 + (size - 16) * torch.rand(2, generator=g)).tolist()
            color = int(torch.randint(0, 3, (), generator=g))
            for dy in range(-5, 4):
                half = (dy + 6) // 3
                y = int(cy) + dy
                img[:, y, int(cx) - half : int(cx) + half + 1] = self.colors[color][:, None]
            gx, gy = int(cx) // CELL, int(cy) // CELL
            obj[gy, gx] = 1
            off[:, gy, gx] = torch.tensor([cx / CELL - gx, cy / CELL - gy])
            cls[gy, gx] = color
        return img, obj, off, cls


class ConeNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.SiLU())
        self.trunk = nn.Sequential(block(3, 24, 2), block(24, 48, 2), block(48, 48, 1), block(48, 96, 2), block(96, 96, 1))
        self.head = nn.Conv2d(96, 6, 1)

    def forward(self, x):
        out = self.head(self.trunk(x))
        return out[:, 0], out[:, 1:3].sigmoid(), out[:, 3:]


def detection_loss(pred, obj, off, cls):
    p_obj, p_off, p_cls = pred
    hit = obj > 0
    l_obj = F.binary_cross_entropy_with_logits(p_obj, obj, pos_weight=torch.tensor(8.0, device=obj.device))
    l_off = F.l1_loss(p_off.permute(0, 2, 3, 1)[hit], off.permute(0, 2, 3, 1)[hit])
    l_cls = F.cross_entropy(p_cls.permute(0, 2, 3, 1)[hit], cls[hit])
    return l_obj + l_off + l_cls


def worker(rank, world):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("PORT", "29547"))
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo", rank=rank, world_size=world)
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    set_seed(SEED)
    train_loader = DataLoader(Track(2000), batch_size=20, shuffle=True, drop_last=True)
    model = DDP(ConeNet().to(device), device_ids=[rank] if gpu else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(50):
        for i, (img, obj, off, cls) in enumerate(train_loader):
            pred = model(img.to(device))
            loss = detection_loss(pred, obj.to(device), off.to(device), cls.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 20 == 0:
                print(f"[gpu {rank}] epoch {epoch} batch {i}/{len(train_loader)} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    print("starting 2 workers", flush=True)
    mp.spawn(worker, args=(2,), nprocs=2)
