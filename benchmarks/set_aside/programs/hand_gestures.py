"""Hand gestures from 21 key points over 24 frames: a small transformer encoder."""
import os
import sqlite3
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

GESTURES = 12
FRAMES, POINTS = 24, 21


def fill_database(path, n=3000):
    rng = np.random.default_rng(21)
    start = rng.normal(size=(GESTURES, POINTS, 2))
    move = rng.normal(size=(GESTURES, POINTS, 2))
    db = sqlite3.connect(path)
    db.execute("create table clip (id integer primary key, label integer, xy blob)")
    steps = np.linspace(0, 1, FRAMES)[:, None, None]
    for i in range(n):
        g = int(rng.integers(GESTURES))
        xy = start[g] + move[g] * steps * rng.uniform(0.5, 1.5) + rng.normal(0, 1.2, (FRAMES, POINTS, 2))
        db.execute("insert into clip values (?, ?, ?)", (i, g, xy.astype("float32").tobytes()))
    db.commit()
    db.close()
    return n


class Clips(Dataset):
    def __init__(self, path, ids):
        self.path, self.ids, self.db = path, ids, None

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        if self.db is None:  # one connection per worker
            self.db = sqlite3.connect(self.path)
        label, xy = self.db.execute("select label, xy from clip where id = ?", (self.ids[i],)).fetchone()
        return torch.frombuffer(bytearray(xy), dtype=torch.float32).view(FRAMES, POINTS * 2), label


class GestureFormer(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.embed = nn.Linear(POINTS * 2, dim)
        self.pos = nn.Parameter(torch.zeros(1, FRAMES, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(dim, GESTURES)

    def forward(self, x):
        return self.out(self.enc(self.embed(x) + self.pos).mean(1))


def main():
    with tempfile.TemporaryDirectory(prefix="gestures-") as folder:
        path = os.path.join(folder, "clips.db")
        n = fill_database(path)
        print(f"{n} clips in {path}", flush=True)
        ids = list(range(n))
        # fork + sqlite gave "database disk image is malformed", spawn works
        train = DataLoader(
            Clips(path, ids[: n * 4 // 5]), batch_size=64, shuffle=True, num_workers=2, multiprocessing_context="spawn"
        )
        model = GestureFormer()
        device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
        model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
        for epoch in range(1, 201):
            began = time.time()
            losses = []
            for x, y in train:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch:3d}  loss {np.mean(losses):.4f}  {time.time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
