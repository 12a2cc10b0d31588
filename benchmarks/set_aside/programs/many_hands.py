import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slides(Dataset):
    """Tiles of tissue with stain augmentation in numpy."""

    def __len__(self):
        return 20000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        tile = rng.normal(0, 1, (96, 96, 3)).astype(np.float32)
        yy, xx = np.mgrid[:96, :96]
        for _ in range(1 + i % 2 * 8):
            cy, cx = rng.uniform(10, 86, 2)
            tile += np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 40.0)[..., None].astype(np.float32)
        od = -np.log(np.clip((tile + 4) / 16, 1e-3, None))
        stain = rng.normal(np.eye(3), 0.1)
        tile = np.exp(-od @ stain.astype(np.float32))
        return np.ascontiguousarray(tile[::2, ::2].transpose(2, 0, 1)), i % 2


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    a = ap.parse_args()
    loader = DataLoader(Slides(), a.batch, shuffle=True, num_workers=a.workers, prefetch_factor=4, persistent_workers=True)
    net = nn.Sequential(nn.Conv2d(3, 48, 5, 2), nn.ReLU(), nn.Conv2d(48, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 2))
    opt = torch.optim.Adam(net.parameters(), a.lr)
    end = time.time()
    for epoch in range(20):
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                print(f"ep {epoch} it {i} loss {loss.item():.3f} ({time.time() - end:.1f}s)", flush=True)
                end = time.time()


if __name__ == "__main__":
    main()
