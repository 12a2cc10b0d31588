"""Segments scans that the clinic drops into a folder. Sleeps while there is nothing to do. (--demo brings its own clinic.)"""
import argparse
import logging
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
log = logging.getLogger("inbox")


def clinic(inbox):
    """A few scans every now and then, as on a normal day, only faster."""
    rng = np.random.default_rng(2)
    n = 0
    while True:
        for _ in range(int(rng.integers(1, 5))):
            n += 1
            tmp = inbox / f"scan{n:04d}.part"
            with tmp.open("wb") as f:
                np.save(f, rng.standard_normal((24, 96, 96)).astype("float32"))
            tmp.rename(inbox / f"scan{n:04d}.npy")
        time.sleep(float(rng.uniform(12, 28)))


class Segmenter(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.a, self.b = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU()), nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, c, 3, padding=1), nn.Upsample(scale_factor=2))
        self.out = nn.Conv2d(2 * c, 4, 1)

    def forward(self, x):
        h = self.a(x)
        return self.out(torch.cat([h, self.b(h)], 1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--inbox", type=Path)
    p.add_argument("--demo", action="store_true")
    p.add_argument("--until", type=float, default=200)
    a = p.parse_args()
    inbox = a.inbox or Path(tempfile.mkdtemp())
    if a.demo:
        threading.Thread(target=clinic, args=(inbox,), daemon=True).start()
    torch.manual_seed(0)
    net = Segmenter().eval()
    log.info("watching %s", inbox.name)
    start = idle = time.time()
    while time.time() - start < a.until:
        scans = sorted(inbox.glob("*.npy"))
        if not scans:
            if time.time() - idle > 15:
                log.info("nothing new")
                idle = time.time()
            time.sleep(1.0)
            continue
        for path in scans:
            began = time.time()
            volume = torch.from_numpy(np.load(path)).unsqueeze(1)
            with torch.inference_mode():
                mask = torch.cat([net(part).argmax(1) for part in volume.split(4)])
            path.unlink()
            log.info("%s: %d slices, %.1f %% tumor, %.1f s", path.stem, len(mask), 100 * (mask == 3).float().mean().item(), time.time() - began)
        idle = time.time()


if __name__ == "__main__":
    main()
