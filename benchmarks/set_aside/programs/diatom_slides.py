"""Genera of diatoms from scanned slides. Slides are decoded once and kept.

    python diatom_slides.py --config diatom_slides.json
"""
import argparse
import json
import time
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

GENERA = ["navicula", "cyclotella", "fragilaria", "surirella", "gyrosigma"]


def shell(genus, rng, side):
    yy, xx = np.mgrid[:side, :side].astype(np.float32) / side - 0.5
    turn = rng.uniform(0, np.pi)
    y, x = yy * np.cos(turn) - xx * np.sin(turn), yy * np.sin(turn) + xx * np.cos(turn)
    if genus == 0:
        d = (y / 0.38) ** 2 + (x / 0.1) ** 2
    elif genus == 1:
        d = (y / 0.27) ** 2 + (x / 0.27) ** 2
    elif genus == 2:
        d = np.maximum(np.abs(y) / 0.42, np.abs(x) / 0.05) ** 2
    elif genus == 3:
        d = (y / 0.36) ** 2 + (x / (0.16 + 0.18 * y)) ** 2
    else:
        d = (y / 0.42) ** 2 + ((x - 0.1 * np.sin(7 * y)) / 0.08) ** 2
    image = 0.8 - 0.4 * (np.abs(d - 1) < 0.25) - 0.12 * (d < 1) * (np.sin(y * rng.uniform(90, 130)) > 0)
    return (image * 255 + rng.normal(0, 22, image.shape)).clip(0, 255).astype(np.uint8)


def scan(count, side, seed):
    """What the scanner delivers: one compressed blob per slide."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(GENERA), count)
    return [(zlib.compress(shell(k, rng, side).tobytes(), 6), int(k)) for k in labels]


class Slides(Dataset):
    def __init__(self, blobs, side, keep=True):
        self.blobs, self.side = blobs, side
        self.kept = [None] * len(blobs) if keep else None

    def __len__(self):
        return len(self.blobs)

    def decode(self, blob):
        image = np.frombuffer(zlib.decompress(blob), dtype=np.uint8).reshape(self.side, self.side).astype(np.float32)
        background = image
        for _ in range(10):
            background = (background + np.roll(background, 8, 0) + np.roll(background, -8, 0)
                          + np.roll(background, 8, 1) + np.roll(background, -8, 1)) / 5
        image = image - background.mean() * 0.5 - background * 0.5
        return torch.from_numpy(image / (image.std() + 1e-3))[None]

    def __getitem__(self, i):
        blob, label = self.blobs[i]
        if self.kept is None:
            return self.decode(blob), label
        if self.kept[i] is None:
            self.kept[i] = self.decode(blob)
        return self.kept[i], label


class DiatomNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        layers, inside = [], 1
        for out in (width, width, 2 * width, 2 * width):
            layers += [nn.Conv2d(inside, out, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            inside = out
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(inside, len(GENERA)))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--config", type=Path, default=Path("diatom_slides.json"))
    cfg = json.loads(p.parse_args().config.read_text())
    torch.manual_seed(14)
    torch.set_num_threads(cfg["threads"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = Slides(scan(cfg["slides"], cfg["side"], 1), cfg["side"])
    valid = Slides(scan(cfg["held_out"], cfg["side"], 2), cfg["side"])
    loader = DataLoader(train, cfg["batch_size"], shuffle=True, drop_last=True)
    check = DataLoader(valid, 50)
    model = DiatomNet(cfg["width"]).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, cfg["lr"], total_steps=cfg["epochs"] * len(loader))
    need = cfg["slides"] * cfg["side"] ** 2 * 4 / 2 ** 20
    print(f"{len(train)} slides; the first epoch decodes them and keeps them in memory ({need:.0f} MiB)", flush=True)

    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        begin, total = time.time(), 0.0
        for step, (x, y) in enumerate(loader, 1):
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            schedule.step()
            total += loss.item()
            if step % cfg["log_every"] == 0:
                kept = sum(k is not None for k in train.kept)
                print(f"epoch {epoch} step {step}/{len(loader)} loss {total / step:.4f} "
                      f"{step / (time.time() - begin):.2f} it/s, {kept} slides in memory", flush=True)
        model.eval()
        with torch.no_grad():
            hits = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in check)
        print(f"epoch {epoch} train {total / len(loader):.4f} accuracy {hits / len(valid):.3f} in {time.time() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
