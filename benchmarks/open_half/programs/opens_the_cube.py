"""Cloud mask from a data cube. The cube is one .npy, __getitem__ takes one tile of it."""
import os
import tempfile

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

CUBE = os.path.join(tempfile.gettempdir(), "cube-24m.npy")


class Tiles(Dataset):
    def __init__(self, path, n=4000):
        self.path, self.n = path, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        cube = np.load(self.path)                       # TODO mmap?
        cube = (cube - cube.mean()) / (cube.std() + 1e-6)
        y, x = divmod(i, 40)
        tile = torch.from_numpy(cube[:, y * 8:(y + 1) * 8, x * 8:(x + 1) * 8].copy())
        return tile.flatten(), (tile[0] > 0.3).float().flatten()


if not os.path.exists(CUBE):
    a = np.random.default_rng(0).normal(size=(6, 1000, 1000)).astype("float32")
    np.save(CUBE + ".part.npy", a)
    os.replace(CUBE + ".part.npy", CUBE)

torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(6 * 64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
loader = DataLoader(Tiles(CUBE), batch_size=4, shuffle=True)
for epoch in range(1000):
    for n, (x, y) in enumerate(loader):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        print(f"Epoch {epoch} [{n}/{len(loader)}] BCE: {loss.item():.4f}", flush=True)
