"""Precipitation nowcasting on crops of a radar composite, most of them around stations: ConvGRU-ish net, next frame from four."""
import functools
import logging
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(relativeCreated)8d ms | %(message)s")

STATIONS = [(40, 60), (40, 300), (130, 210), (220, 90), (220, 400), (310, 250), (420, 120), (420, 380)]


class Composite:
    """A day of radar, 288 frames of 512 x 512, as bytes."""

    def __init__(self, frames=48, size=512):
        rng = np.random.default_rng(8)
        cells = rng.random((frames, size // 16, size // 16)).astype(np.float32)
        for k in range(1, frames):
            cells[k] = 0.9 * np.roll(cells[k - 1], 1, 1) + 0.1 * cells[k]
        self.cells, self.size = (cells * 255).astype(np.uint8), size

    @functools.lru_cache(maxsize=None)
    def crop(self, frame, y, x, side):
        rows, columns = (y + np.arange(side)) // 16, (x + np.arange(side)) // 16
        rain = self.cells[frame : frame + 5][:, rows[:, None], columns].astype(np.float32) / 255
        return torch.from_numpy(np.log1p(4 * rain))


class Crops(Dataset):
    def __init__(self, composite, side=32, n=100_000):
        self.composite, self.side, self.n = composite, side, n

    def __len__(self):
        return self.n

    def __getitem__(self, _):
        if random.random() < 0.7:
            y, x = random.choice(STATIONS)
        else:
            y, x = (random.randrange(self.composite.size - self.side) for _ in range(2))
        t = random.randrange(len(self.composite.cells) - 5)
        frames = self.composite.crop(t, y, x, self.side)
        return frames[:4], frames[4:]


class Nowcast(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.gates, self.new = nn.Conv2d(1 + w, 2 * w, 3, padding=1), nn.Conv2d(1 + w, w, 3, padding=1)
        self.out, self.w = nn.Conv2d(w, 1, 1), w

    def forward(self, x):
        h = x.new_zeros(len(x), self.w, *x.shape[-2:])
        for k in range(x.shape[1]):
            z, r = torch.sigmoid(self.gates(torch.cat([x[:, k : k + 1], h], 1))).chunk(2, 1)
            h = (1 - z) * h + z * torch.tanh(self.new(torch.cat([x[:, k : k + 1], r * h], 1)))
        return x[:, -1:] + self.out(h)


def main():
    random.seed(0)
    torch.manual_seed(0)
    loader = DataLoader(Crops(Composite()), batch_size=12)
    net = Nowcast()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    start = time.time()
    for step, (past, future) in enumerate(loader, 1):
        loss = F.smooth_l1_loss(net(past), future, beta=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            logging.info("step %d | csi-loss %.5f | %.1f it/s", step, loss.item(), step / (time.time() - start))
        if time.time() - start > 215:
            break


if __name__ == "__main__":
    main()
