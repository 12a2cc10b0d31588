"""Facies segmentation on 2-D seismic patches. Usage: seismic_facies.py [config.yaml]"""
import os
import sys
import tempfile
import time

import torch
import yaml
from torch import nn
from torch.nn import functional as F

DEFAULT = """
model:
  channels: [24, 48, 96, 192]
  classes: 5
optim:
  lr: 1.0e-3
  batch: 12
run:
  steps: 20000
  print_every: 10
  save_every: 60
  nas_mb_per_s: 3.5
"""


class NasFile:
    """Stand-in for a file on the institute's NAS (1 GbE, shared by the whole floor)."""

    def __init__(self, path, mb_per_s):
        self.f, self.rate = open(path, "wb"), mb_per_s * 1e6

    def write(self, data):
        n = self.f.write(data)
        time.sleep(n / self.rate)
        return n

    def flush(self):
        self.f.flush()

    def close(self):
        self.f.flush()
        os.fsync(self.f.fileno())
        self.f.close()


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.down = nn.ModuleList(block(i, o) for i, o in zip([1] + channels[:-1], channels))
        self.up = nn.ModuleList(block(a + b, a) for a, b in zip(channels[:-1][::-1], channels[1:][::-1]))
        self.head = nn.Conv2d(channels[0], classes, 1)

    def forward(self, x):
        skips = []
        for i, d in enumerate(self.down):
            x = d(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for u in self.up:
            x = u(torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], 1))
        return self.head(x)


def patches(n, classes, size=48):
    """Folded layers, each with its own reflectivity pattern."""
    z = torch.linspace(0, 1, size)[None, :, None]
    x = torch.linspace(0, 1, size)[None, None, :]
    fold = 0.15 * torch.sin(6.28 * (x * torch.rand(n, 1, 1) * 2 + torch.rand(n, 1, 1)))
    depth = (z + fold + 0.3 * torch.rand(n, 1, 1)).clamp(0, 0.999)
    label = (depth * classes).long().clamp(0, classes - 1)
    amp = torch.sin(depth * 40 * (1 + label * 0.6)) + 0.5 * torch.randn(n, size, size)
    return amp[:, None], label


class Trainer:
    def __init__(self, cfg, out):
        self.cfg, self.out = cfg, out
        torch.manual_seed(cfg.get("seed", 0))
        self.model = UNet(**cfg["model"])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg["optim"]["lr"])
        self.step = 0

    def save(self):
        path = os.path.join(self.out, "last.ckpt")
        f = NasFile(path + ".tmp", self.cfg["run"]["nas_mb_per_s"])
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(), "step": self.step}, f)
        f.close()
        os.replace(path + ".tmp", path)

    def run(self):
        c = self.cfg["run"]
        while self.step < c["steps"]:
            x, y = patches(self.cfg["optim"]["batch"], self.cfg["model"]["classes"])
            loss = F.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.step += 1
            if self.step % c["print_every"] == 0:
                print(f"step={self.step} loss={loss.item():.4f}", flush=True)
            if self.step % c["save_every"] == 0:
                self.save()


if __name__ == "__main__":
    text = open(sys.argv[1]).read() if len(sys.argv) > 1 else DEFAULT
    with tempfile.TemporaryDirectory(prefix="facies-") as nas:
        Trainer(yaml.safe_load(text), nas).run()
