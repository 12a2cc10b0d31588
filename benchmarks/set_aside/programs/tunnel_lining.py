"""Segmentation of cracks and seepage in tunnel linings. Accelerate; full state to the archive, in case the queue evicts us."""
import os
import shutil
import tempfile
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Job:
    width: int = 56
    batch: int = 10
    lr: float = 3e-4
    epochs: int = 60
    save_every: int = 80
    archive_mb_per_s: float = 3.0  # what the archive's mount gives one client


def linings(n=1200, side=32):
    g = torch.Generator().manual_seed(9)
    x = 0.6 * torch.randn(n, 1, side, side, generator=g)
    mask = torch.zeros(n, side, side, dtype=torch.long)
    pos = torch.arange(side).float()
    slope = torch.randn(n, generator=g) * 0.7
    start = side * torch.rand(n, generator=g)
    line = start[:, None] + slope[:, None] * pos
    mask[(pos[None, :, None] - line[:, None, :]).abs() < 1.5] = 1
    cy, cx = side * torch.rand(2, n, generator=g)
    blob = (pos[None, :, None] - cy[:, None, None]) ** 2 + (pos[None, None] - cx[:, None, None]) ** 2 < 30
    mask[blob] = 2
    return TensorDataset(x + (mask == 1)[:, None] * 1.2 - (mask == 2)[:, None] * 1.0, mask)


class UNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.a, self.b, self.c, self.m = block(1, w // 2), block(w // 2, w * 2), block(w * 2, w * 6), block(w * 6, w * 6)
        self.d, self.e, self.out = block(w * 8, w * 2), block(w * 2 + w // 2, w // 2), nn.Conv2d(w // 2, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.m(self.c(F.max_pool2d(b, 4)))
        d = self.d(torch.cat([F.interpolate(c, scale_factor=4), b], 1))
        return self.out(self.e(torch.cat([F.interpolate(d, scale_factor=2), a], 1)))


def copy_to_archive(source, target, rate):
    """Stands for the archive's mount: a copy in pieces at its rate."""
    os.makedirs(target, exist_ok=True)
    for name in sorted(os.listdir(source)):
        with open(os.path.join(source, name), "rb") as f, open(os.path.join(target, name), "wb") as g:
            while piece := f.read(1 << 18):
                g.write(piece)
                g.flush()
                time.sleep(len(piece) / (rate * 1e6))


def main(job=Job()):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    root = tempfile.mkdtemp(prefix="lining_")
    loader = DataLoader(linings(), batch_size=job.batch, shuffle=True, drop_last=True)
    model = UNet(job.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.print(job, flush=True)
    step = 0
    for epoch in range(job.epochs):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y, weight=torch.tensor([0.3, 1.0, 1.0]))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % 10 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            if step % job.save_every == 0:
                local = os.path.join(root, "local")
                accelerator.save_state(local)
                copy_to_archive(local, os.path.join(root, "archive"), job.archive_mb_per_s)
                shutil.rmtree(local)


if __name__ == "__main__":
    main()
