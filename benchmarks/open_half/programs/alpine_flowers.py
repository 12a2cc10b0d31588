"""Alpine flowers, listed in two tables. Keras-style: fit, evaluate after each epoch."""
import csv
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES = ["aster", "arnica", "bellflower", "carline", "edelweiss", "gentian", "lily", "primrose", "saxifrage", "thistle"]


def photograph(root, split, per_species, seed):
    """What the download script leaves behind: <root>/<split>/<number>.npy, and <root>/<split>.csv with the file and its species."""
    rng = np.random.default_rng(seed)
    g = np.linspace(-1, 1, 24)
    r, a = np.hypot(g[:, None], g[None]), np.arctan2(g[:, None], g[None])
    os.makedirs(os.path.join(root, split))
    with open(os.path.join(root, f"{split}.csv"), "w", newline="") as f:
        table = csv.writer(f)
        table.writerow(["file", "species"])
        for i, k in enumerate(rng.permutation(np.repeat(np.arange(len(SPECIES)), per_species))):
            petals = np.cos((3 + k) * a + rng.random() * 6.28) * np.exp(-r * 1.5)
            np.save(os.path.join(root, split, f"{i:04d}.npy"), (petals + 0.45 * rng.standard_normal((3, 24, 24))).astype("float32"))
            table.writerow([f"{i:04d}.npy", SPECIES[k]])


def factorize(values):
    """pandas.factorize, without pandas."""
    codes = {}
    return [codes.setdefault(v, len(codes)) for v in values], list(codes)


class Photos(Dataset):
    def __init__(self, root, split):
        with open(os.path.join(root, f"{split}.csv")) as f:
            rows = list(csv.DictReader(f))
        self.files = [os.path.join(root, split, row["file"]) for row in rows]
        self.labels, self.classes = factorize(row["species"] for row in rows)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return torch.from_numpy(np.load(self.files[i])), self.labels[i]


class FlowerNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 36, n))

    def forward(self, x):
        return self.net(x)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as root:
        photograph(root, "train", 64, 1)
        photograph(root, "test", 20, 2)
        train, test = Photos(root, "train"), Photos(root, "test")
        net = FlowerNet(len(train.classes))
        opt = torch.optim.Adam(net.parameters(), 1e-3)
        start, epoch = time.time(), 0
        while time.time() - start < 205:
            net.train()
            total = hits = n = 0
            for x, y in DataLoader(train, 32, shuffle=True):
                out = net(x)
                loss = nn.functional.cross_entropy(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total, hits, n = total + loss.item() * len(y), hits + (out.argmax(1) == y).sum().item(), n + len(y)
            net.eval()
            vtotal = vhits = vn = 0
            with torch.no_grad():
                for x, y in DataLoader(test, 100):
                    out = net(x)
                    vtotal, vhits, vn = vtotal + nn.functional.cross_entropy(out, y).item() * len(y), vhits + (out.argmax(1) == y).sum().item(), vn + len(y)
            epoch += 1
            print(f"Epoch {epoch} - loss: {total / n:.4f} - accuracy: {hits / n:.4f} - val_loss: {vtotal / vn:.4f} - val_accuracy: {vhits / vn:.4f}", flush=True)


if __name__ == "__main__":
    main()
