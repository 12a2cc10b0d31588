# Jam labels -> which jam? Photos of jar labels, one folder per sort.
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SORTS = ["apricot", "blackberry", "cherry", "gooseberry", "plum", "quince", "raspberry", "strawberry"]
PER_SORT = 750
SIZE = 40


def write_photos(root):
    rng = np.random.default_rng(99)
    stripes = rng.uniform(0, np.pi, len(SORTS))
    colors = rng.uniform(0.25, 0.75, (len(SORTS), 3))
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    for k, sort in enumerate(SORTS):
        os.makedirs(os.path.join(root, sort))
        n = PER_SORT
        freq = rng.uniform(18, 22, (n, 1, 1))
        phase = rng.uniform(0, 6.3, (n, 1, 1))
        wave = np.sin(freq * (np.cos(stripes[k]) * xx + np.sin(stripes[k]) * yy) + phase)
        x = colors[k][None, :, None, None] + 0.12 * wave[:, None] + rng.normal(0, 0.25, (n, 3, SIZE, SIZE))
        np.save(os.path.join(root, sort, "photos.npy"), x.astype(np.float32))


class JamFolder(Dataset):
    def __init__(self, root):
        self.samples, self.photos = [], []
        for k, sort in enumerate(sorted(os.listdir(root))):
            self.photos.append(np.load(os.path.join(root, sort, "photos.npy"), mmap_mode="r"))
            for j in range(len(self.photos[-1])):
                self.samples.append((k, j))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        k, j = self.samples[i]
        x = torch.from_numpy(np.array(self.photos[k][j]))
        if torch.rand(1).item() < 0.5:
            x = x.flip(2)
        return x, k


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(8, o), nn.ReLU(), nn.MaxPool2d(2))


net = nn.Sequential(block(3, 32), block(32, 48), block(48, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 8))

if __name__ == "__main__":
    torch.manual_seed(0)
    tmp = tempfile.TemporaryDirectory()
    write_photos(tmp.name)
    data = JamFolder(tmp.name)
    print(len(data), "photos of", len(SORTS), "sorts", flush=True)
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    net = net.to(dev)
    train_dl = DataLoader(data, batch_size=32, num_workers=0)
    optim = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    crit = nn.CrossEntropyLoss()
    t0 = time.time()
    step = 0
    for epoch in range(400):
        for xb, yb in train_dl:
            xb, yb = xb.to(dev), yb.to(dev)
            loss = crit(net(xb), yb)
            optim.zero_grad(set_to_none=True)
            loss.backward()
            optim.step()
            step += 1
            if step % 5 == 0:
                print(f"[{time.time() - t0:6.1f}s] epoch={epoch} step={step} train_loss={loss.item():.4f}", flush=True)
