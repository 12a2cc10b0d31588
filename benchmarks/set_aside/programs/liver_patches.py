"""Patch-based liver lesion segmentation, 3D U-Net. Minimal version of the internal pipeline."""
import argparse
import csv
import logging
import tempfile
import time
from dataclasses import dataclass, asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("liver")


@dataclass
class Config:
    patch: int = 32
    margin: int = 16
    volumes: int = 10
    volume_size: int = 80
    patches_per_epoch: int = 160
    batch_size: int = 8
    num_workers: int = 1
    lr: float = 3e-4
    epochs: int = 40
    width: int = 6
    alpha: float = 14.0
    sigma: float = 4.0
    out: str = str(Path(tempfile.gettempdir()) / "liver_patches")


def synth_volume(rng, size):
    zz, yy, xx = np.meshgrid(*[np.linspace(-1, 1, size, dtype=np.float32)] * 3, indexing="ij")
    liver = ((zz / 0.75) ** 2 + (yy / 0.6) ** 2 + (xx / 0.8) ** 2) < 1
    vol = rng.normal(0, 0.25, (size,) * 3).astype(np.float32) + 0.6 * liver
    mask = np.zeros((size,) * 3, np.uint8)
    for _ in range(14):
        c = rng.uniform(-0.6, 0.6, 3)
        r = rng.uniform(0.08, 0.2)
        blob = ((zz - c[0]) ** 2 + (yy - c[1]) ** 2 + (xx - c[2]) ** 2) < r * r
        mask[blob] = 1
        vol[blob] -= 0.5
    return vol, mask


def gaussian_kernel(sigma):
    radius = int(3 * sigma)
    x = np.arange(-radius, radius + 1)
    k = np.exp(-0.5 * (x / sigma) ** 2)
    return k / k.sum()


def smooth(field, kernel):
    for axis in range(field.ndim):
        field = np.apply_along_axis(lambda line: np.convolve(line, kernel, mode="same")[: len(line)], axis, field)
    return field


def sample_linear(vol, coords):
    size = np.array(vol.shape).reshape(3, 1, 1, 1)
    coords = np.clip(coords, 0, size - 1.001)
    lo = coords.astype(np.int64)
    w = coords - lo
    out = 0
    for dz in (0, 1):
        for dy in (0, 1):
            for dx in (0, 1):
                weight = (w[0] if dz else 1 - w[0]) * (w[1] if dy else 1 - w[1]) * (w[2] if dx else 1 - w[2])
                out = out + weight * vol[lo[0] + dz, lo[1] + dy, lo[2] + dx]
    return out


class PatchDataset(Dataset):
    def __init__(self, volumes, cfg, augment):
        self.volumes, self.cfg, self.augment = volumes, cfg, augment
        self.kernel = gaussian_kernel(cfg.sigma)

    def __len__(self):
        return self.cfg.patches_per_epoch

    def crop(self, rng):
        vol, mask = self.volumes[rng.integers(len(self.volumes))]
        p = self.cfg.patch + 2 * self.cfg.margin
        z, y, x = rng.integers(0, vol.shape[0] - p, 3)
        return vol[z:z + p, y:y + p, x:x + p].copy(), mask[z:z + p, y:y + p, x:x + p].copy()

    def elastic(self, vol, mask, rng):
        shape = vol.shape
        grid = np.stack(np.meshgrid(*[np.arange(s) for s in shape], indexing="ij")).astype(np.float32)
        disp = np.stack([smooth(rng.uniform(-1, 1, shape), self.kernel) for _ in range(3)]) * self.cfg.alpha
        coords = grid + disp
        return sample_linear(vol, coords), (sample_linear(mask.astype(np.float32), coords) > 0.5)

    def __getitem__(self, i):
        rng = np.random.default_rng(torch.randint(0, 2 ** 31, (1,)).item())
        vol, mask = self.crop(rng)
        if self.augment:
            vol, mask = self.elastic(vol, mask, rng)
            bias = smooth(rng.normal(0, 1, vol.shape), self.kernel)
            vol = vol * rng.uniform(0.9, 1.1) + 2.0 * bias
            for axis in range(3):
                if rng.random() < 0.5:
                    vol, mask = np.flip(vol, axis), np.flip(mask, axis)
        m, p = self.cfg.margin, self.cfg.patch
        vol, mask = vol[m:m + p, m:m + p, m:m + p], mask[m:m + p, m:m + p, m:m + p]   # no border effects of the deformation
        vol = (vol - vol.mean()) / (vol.std() + 1e-5)
        return torch.from_numpy(np.ascontiguousarray(vol, np.float32))[None], torch.from_numpy(np.ascontiguousarray(mask, np.int64))


def block(cin, cout):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, inplace=True),
                         nn.Conv3d(cout, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, inplace=True))


class UNet3D(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.d1, self.d2, self.d3 = block(1, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.u2, self.u1 = block(6 * w, 2 * w), block(3 * w, w)
        self.head = nn.Conv3d(w, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool3d(a, 2))
        c = self.d3(F.max_pool3d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2, mode="nearest"), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2, mode="nearest"), a], 1))
        return self.head(a)


def dice_ce(logits, mask):
    p = logits.softmax(1)[:, 1]
    m = mask.float()
    dice = 1 - (2 * (p * m).sum() + 1) / (p.sum() + m.sum() + 1)
    return dice + F.cross_entropy(logits, mask)


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    inter = total = 0.0
    for x, y in batches:
        pred = model(x.to(device)).argmax(1).cpu()
        inter += (2 * (pred * y).sum()).item()
        total += (pred.sum() + y.sum()).item()
    model.train()
    return inter / max(total, 1)


def main():
    parser = argparse.ArgumentParser()
    for k, v in asdict(Config()).items():
        parser.add_argument(f"--{k}", type=type(v), default=v)
    cfg = Config(**vars(parser.parse_args()))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    out = Path(cfg.out)
    out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    volumes = [synth_volume(rng, cfg.volume_size) for _ in range(cfg.volumes)]
    log.info("loaded %d volumes, device %s", len(volumes), device)

    train = DataLoader(PatchDataset(volumes[:-2], cfg, True), cfg.batch_size, shuffle=True, num_workers=cfg.num_workers,
                       persistent_workers=cfg.num_workers > 0, pin_memory=device == "cuda", drop_last=True)
    val_set = PatchDataset(volumes[-2:], cfg, False)
    val_batches = [tuple(map(torch.stack, zip(*[val_set[i] for i in range(8)]))) for _ in range(4)]

    model = UNet3D(cfg.width).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    step = 0
    with open(out / "metrics.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["epoch", "step", "loss", "val_dice"])
        for epoch in range(cfg.epochs):
            t0 = time.time()
            for x, y in train:
                x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
                loss = dice_ce(model(x), y)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                step += 1
                if step % 2 == 1:
                    log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
            dice = validate(model, val_batches, device)
            writer.writerow([epoch, step, loss.item(), dice])
            f.flush()
            torch.save(model.state_dict(), out / "last.pt")
            log.info("epoch %d done in %.1fs, val dice %.4f", epoch, time.time() - t0, dice)


if __name__ == "__main__":
    main()
