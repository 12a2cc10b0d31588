"""Cracks in concrete slabs: binary segmentation; checkpoints go to the slow archive through a writer thread."""
from __future__ import annotations

import copy
import io
import queue
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Settings:
    steps: int = 20000
    batch: int = 12
    lr: float = 8e-4
    print_every: int = 10
    val_every: int = 250
    save_every: int = 80
    archive_mb_s: float = 1.0


class ArchiveWriter(threading.Thread):
    """Writes the newest snapshot only; an older one that still waits is dropped."""

    def __init__(self, folder: Path, mb_s: float):
        super().__init__(daemon=True)
        self.folder, self.rate = folder, mb_s * 1e6
        self.box: queue.Queue[tuple[int, dict]] = queue.Queue(maxsize=1)

    def offer(self, step: int, state: dict) -> None:
        try:
            self.box.get_nowait()
        except queue.Empty:
            pass
        self.box.put((step, state))

    def run(self) -> None:
        while True:
            step, state = self.box.get()
            raw = io.BytesIO()
            torch.save(state, raw)
            data = raw.getbuffer()
            with open(self.folder / "last.pt.tmp", "wb") as f:
                for k in range(0, len(data), 1 << 18):
                    f.write(data[k : k + (1 << 18)])
                    time.sleep((1 << 18) / self.rate)
            (self.folder / "last.pt.tmp").replace(self.folder / "last.pt")
            print(f"archived step {step}", flush=True)


class CrackNet(nn.Module):
    def __init__(self, w: int = 32):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(1, w, 3, padding=1), nn.GroupNorm(4, w), nn.SiLU())
        self.enc2 = nn.Sequential(nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * w), nn.SiLU())
        self.enc3 = nn.Sequential(nn.Conv2d(2 * w, 4 * w, 3, stride=2, padding=1), nn.GroupNorm(4, 4 * w), nn.SiLU())
        self.up2 = nn.Conv2d(6 * w, 2 * w, 3, padding=1)
        self.up1 = nn.Conv2d(3 * w, w, 3, padding=1)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(a)
        c = self.enc3(b)
        b = F.silu(self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1)))
        a = F.silu(self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))
        return self.out(a)


def slabs(n: int, size: int = 48):
    t = torch.linspace(0, 1, size)
    path = 0.15 + 0.7 * torch.rand(n, 1) + 0.12 * torch.sin(t[None] * 6 * torch.rand(n, 1) + 6 * torch.rand(n, 1))
    dist = (t[None, :, None] - path[:, None, :]).abs()
    mask = (dist < 0.03).float() * (torch.rand(n, 1, 1) < 0.8)
    return (1.0 * torch.randn(n, size, size) - 1.3 * mask)[:, None], mask[:, None]


def criterion(logits, mask):
    p = logits.sigmoid()
    dice = 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + dice


def main(s: Settings = Settings()):
    torch.manual_seed(6)
    model = CrackNet()
    opt = torch.optim.AdamW(model.parameters(), lr=s.lr)
    with tempfile.TemporaryDirectory(prefix="slabs-") as folder:
        writer = ArchiveWriter(Path(folder), s.archive_mb_s)
        writer.start()
        held_out = slabs(48)
        for step in range(1, s.steps + 1):
            x, m = slabs(s.batch)
            loss = criterion(model(x), m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % s.print_every == 0:
                print(f"{step},{loss.item():.4f}", flush=True)
            if step % s.val_every == 0:
                model.eval()
                with torch.inference_mode():
                    print(f"{step},val,{criterion(model(held_out[0]), held_out[1]).item():.4f}", flush=True)
                model.train()
            if step % s.save_every == 0:
                writer.offer(step, copy.deepcopy({"model": model.state_dict(), "opt": opt.state_dict()}))


if __name__ == "__main__":
    main()
