import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Cells(Dataset):
    """synthetic microscopy; elastic deformation as in the U-Net paper, in numpy"""
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        img = rng.normal(0, 0.2, (96, 96)).astype("float32")
        yy, xx = np.mgrid[:96, :96]
        for _ in range(rng.integers(2, 6)):
            cy, cx, r = rng.uniform(10, 86), rng.uniform(10, 86), rng.uniform(4, 12)
            img[(yy - cy) ** 2 + (xx - cx) ** 2 < r * r] += 1.0
        mask = (img > 0.6).astype("float32")
        return self.elastic(img, mask, rng)

    def elastic(self, img, mask, rng, alpha=8.0, k=9):
        kernel = np.hanning(k) / np.hanning(k).sum()
        d = rng.uniform(-1, 1, (2, 96, 96))
        for axis in (1, 2):
            for _ in range(16):
                d = np.apply_along_axis(lambda row: np.convolve(row, kernel, "same"), axis, d)
        yy, xx = np.mgrid[:96, :96]
        iy = np.clip(yy + alpha * 10 * d[0], 0, 95).astype(int)
        ix = np.clip(xx + alpha * 10 * d[1], 0, 95).astype(int)
        return torch.from_numpy(img[iy, ix])[None], torch.from_numpy(mask[iy, ix])[None]


def main():
    loader = DataLoader(Cells(), batch_size=8, shuffle=True, num_workers=1)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(1000):
        tic = time.time()
        for i, (img, mask) in enumerate(loader):
            loss = bce(net(img), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                print(f"Epoch: [{epoch}][{i}/{len(loader)}]\tTime {time.time() - tic:.1f}\tLoss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
