"""Kelp forests from drone images; segmentation with a small encoder-decoder.  After every 60 batches the state is archived."""
import gzip
import io
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class State:
    batch: int = 0
    images: list = field(default_factory=list)  # the last ones, to look at the training again
    started: float = field(default_factory=time.time)


class Archive:
    """Keeps the newest state; the disk quota is small, so it is packed as well as possible."""

    def __init__(self, keep_images):
        self.keep_images, self.path = keep_images, os.path.join(tempfile.mkdtemp(prefix="kelp"), "state.pt.gz")

    def __call__(self, model, optimizer, state):
        raw = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "images": state.images}, raw)
        with gzip.open(self.path, "wb", compresslevel=9) as file:
            file.write(raw.getvalue())
        return os.path.getsize(self.path)


def drone(n, side=64):
    field_ = nn.functional.interpolate(torch.randn(n, 1, 6, 6), size=(side, side), mode="bicubic")
    kelp = (field_ > 0.35).float()
    water = torch.rand(n, 3, 1, 1) * 0.3 + 0.1 * torch.randn(n, 3, side, side)
    return water + kelp * torch.tensor([0.2, 0.35, 0.05]).view(1, 3, 1, 1), kelp


model = nn.Sequential(
    nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(),
    nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
state, archive = State(), Archive(keep_images=600)
while time.time() - state.started < 210:
    x, kelp = drone(12)
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), kelp)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state.images = [*state.images, *x][-archive.keep_images :]
    state.batch += 1
    if state.batch % 15 == 0:
        print(f"{time.time() - state.started:6.1f}  batch {state.batch}  bce {loss.item():.4f}", file=sys.stderr)
    if state.batch % 60 == 0:
        size = archive(model, optimizer, state)
        print(f"{time.time() - state.started:6.1f}  archived, {size / 1e6:.1f} MB", file=sys.stderr)
os.remove(archive.path)
os.rmdir(os.path.dirname(archive.path))
