"""Segmentation of tidal flats (water / mud / seagrass) with a small U-Net.

All options live in one dict, override with key=value:  python tidal_flats.py train.lr=5e-4
"""
import ast
import copy
import gzip
import os
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

OPTIONS = {
    "train": {"lr": 1e-3, "batch_size": 4, "iterations": 20000, "log_every": 5, "save_every": 25},
    "model": {"width": 56, "classes": 3},
    "data": {"size": 48, "seed": 4},
}


def options_from(argv):
    opts = copy.deepcopy(OPTIONS)
    for item in argv:
        key, value = item.split("=", 1)
        group, name = key.split(".")
        if name not in opts[group]:
            raise SystemExit(f"unknown option {key}")
        opts[group][name] = ast.literal_eval(value)
    return opts


def tiles(n, size, gen):
    """Smooth random height: low is water, the middle is mud, high is seagrass; four bands with noise."""
    height = F.interpolate(torch.randn(n, 1, 7, 7, generator=gen), size=(size, size), mode="bicubic")
    label = (height > -0.4).long() + (height > 0.4).long()
    label = label[:, 0]
    spectrum = torch.tensor([[0.1, 0.2, 0.4, 0.0], [0.4, 0.3, 0.2, 0.3], [0.2, 0.5, 0.1, 0.8]])
    image = spectrum[label].permute(0, 3, 1, 2) + 0.25 * torch.randn(n, 4, size, size, generator=gen)
    return image, label


class Double(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        w = width
        self.d1, self.d2, self.d3, self.d4 = Double(4, w), Double(w, 2 * w), Double(2 * w, 4 * w), Double(4 * w, 8 * w)
        self.u3, self.u2, self.u1 = Double(12 * w, 4 * w), Double(6 * w, 2 * w), Double(3 * w, w)
        self.out = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        d = self.d4(F.max_pool2d(c, 2))
        x = self.u3(torch.cat([F.interpolate(d, scale_factor=2), c], 1))
        x = self.u2(torch.cat([F.interpolate(x, scale_factor=2), b], 1))
        x = self.u1(torch.cat([F.interpolate(x, scale_factor=2), a], 1))
        return self.out(x)


class Trainer:
    def __init__(self, opts, folder):
        self.opts = opts
        self.folder = folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(opts["data"]["seed"])
        self.gen = torch.Generator().manual_seed(opts["data"]["seed"])
        self.model = UNet(**opts["model"]).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=opts["train"]["lr"])
        self.iteration = 0

    def save(self):
        # the quota of /home is 20 GB
        state = {"it": self.iteration, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        with gzip.open(os.path.join(self.folder, "last.pth.gz"), "wb") as f:
            torch.save(state, f)

    def train(self):
        t = self.opts["train"]
        size = self.opts["data"]["size"]
        last = time.time()
        while self.iteration < t["iterations"]:
            x, y = tiles(t["batch_size"], size, self.gen)
            logits = self.model(x.to(self.device))
            loss = F.cross_entropy(logits, y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.iteration += 1
            if self.iteration % t["log_every"] == 0:
                acc = (logits.argmax(1).cpu() == y).float().mean().item()
                now = time.time()
                print(f"iter {self.iteration:6d}  loss {loss.item():.4f}  pixel acc {acc:.3f}  {now - last:.1f} s", flush=True)
                last = now
            if self.iteration % t["save_every"] == 0:
                self.save()


if __name__ == "__main__":
    options = options_from(sys.argv[1:])
    print(options, flush=True)
    with tempfile.TemporaryDirectory(prefix="flats-") as folder:
        trainer = Trainer(options, folder)
        print("parameters:", sum(p.numel() for p in trainer.model.parameters()), flush=True)
        trainer.train()
