"""Segmentation of roofs. Decoded tiles stay in memory after the first epoch (about 1 GB; the machine has enough)."""
import argparse
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tiles(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        raw = [rng.integers(0, 255, (256, 256), dtype=np.uint8) & 0xF0 for _ in range(20)]
        self.files = [zlib.compress(raw[i % 20].tobytes(), 1) for i in range(n)]
        self.cache = {}

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        if i not in self.cache:
            tile = np.frombuffer(zlib.decompress(self.files[i]), np.uint8).reshape(256, 256)
            x = torch.from_numpy(tile.astype(np.float32) / 255)
            roof = (nn.functional.avg_pool2d(x[None, None], 17, 1, 8)[0, 0] > 0.46).float()
            self.cache[i] = torch.stack([x, roof])
        both = self.cache[i]
        r, c = torch.randint(0, 192, (2,)).tolist()
        cut = both[:, r : r + 64, c : c + 64]
        return cut[:1], cut[1:]


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=2000)
    ap.add_argument("--bs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(0)
    ds = Tiles(args.tiles)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=4, dilation=2), nn.ReLU(),
        nn.Conv2d(8, 8, 5, padding=8, dilation=4), nn.ReLU(), nn.Conv2d(8, 1, 1),
    )
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for epoch in range(1000):
        for i, (x, y) in enumerate(DataLoader(ds, args.bs, shuffle=True)):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                gb = len(ds.cache) * 2 * 256 * 256 * 4 / 1e9
                print(f"epoch {epoch} {i} loss {loss.item():.4f} cache {gb:.2f} GB", flush=True)
