"""Segments lesions in MRI slices. The slices lie in memory as they came from the reader."""

from __future__ import annotations

import argparse
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--patients", type=int, default=12)
parser.add_argument("--slices", type=int, default=24)
parser.add_argument("--size", type=int, default=128)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--epochs", type=int, default=400)
parser.add_argument("--lr", type=float, default=2e-3)
args = parser.parse_args()

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def read_patient(size: int, slices: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Stand in for nibabel: T1, T2 and FLAIR of each slice, and its mask."""
    images, masks = [], []
    yy, xx = np.mgrid[:size, :size]
    for _ in range(slices):
        cy, cx, r = np.random.uniform(0.25, 0.75) * size, np.random.uniform(0.25, 0.75) * size, np.random.uniform(4, 14)
        mask = ((yy - cy) ** 2 + (xx - cx) ** 2 < r * r).astype(np.float32)
        image = np.random.randn(3, size, size).astype(np.float32) * 0.5
        image[2] += mask
        image[1] -= 0.5 * mask
        images.append(image)
        masks.append(mask[None])
    return images, masks


images: list[np.ndarray] = []
masks: list[np.ndarray] = []
for _ in range(args.patients):
    i, m = read_patient(args.size, args.slices)
    images += i
    masks += m
print("slices:", len(images), "each", images[0].shape)


class Segmenter(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.GroupNorm(4, 2 * width),
            nn.SiLU(),
            nn.Conv2d(2 * width, width, 3, padding=1),
            nn.SiLU(),
        )
        self.up = nn.ConvTranspose2d(width, 1, 4, stride=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.body(self.down(x)))


def dice(logits: torch.Tensor, mask: torch.Tensor) -> float:
    found = (logits > 0).float()
    return float((2 * (found * mask).sum() + 1) / (found.sum() + mask.sum() + 1))


model = Segmenter().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
print("parameters:", sum(p.numel() for p in model.parameters()))

for epoch in range(args.epochs):
    order = list(range(len(images)))
    random.shuffle(order)
    losses, scores = [], []
    began = time.time()
    for start in range(0, len(order), args.batch):
        chosen = order[start : start + args.batch]
        x = torch.tensor([images[k].tolist() for k in chosen], dtype=torch.float32).to(device)
        y = torch.tensor([masks[k].tolist() for k in chosen], dtype=torch.float32).to(device)
        logits = model(x)
        loss = F.binary_cross_entropy_with_logits(logits, y, pos_weight=torch.tensor(5.0, device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        scores.append(dice(logits.detach(), y))
        print(f"  {epoch}:{start // args.batch:02d} loss {losses[-1]:.4f} dice {scores[-1]:.3f}", flush=True)
    print(f"epoch {epoch}: loss {np.mean(losses):.4f}, dice {np.mean(scores):.3f}, {time.time() - began:.1f} s", flush=True)
