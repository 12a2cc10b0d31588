"""Next-order prediction for spare parts; orders are in SQLite, so the loader must not fork (see wiki)."""
import os
import sqlite3
import tempfile

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

PARTS, HISTORY = 400, 24
config = {"lr": 1e-3, "batch_size": 32, "epochs": 200, "workers": 2, "dim": 128, "seed": 21}


def fill_database(path, customers=1100):
    rng = np.random.default_rng(0)
    db = sqlite3.connect(path)
    db.execute("create table orders (customer integer primary key, parts blob)")
    for c in range(customers):
        start, stride = rng.integers(PARTS), rng.choice([1, 3, 7, 11])
        seq = (start + stride * np.arange(HISTORY + 1)) % PARTS
        noise = rng.random(HISTORY + 1) < 0.05
        seq[noise] = rng.integers(0, PARTS, noise.sum())
        db.execute("insert into orders values (?, ?)", (c, seq.astype(np.int64).tobytes()))
    db.commit()
    db.close()


class Orders(Dataset):
    def __init__(self, path, n):
        self.path, self.n, self.db = path, n, None

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.db is None:
            self.db = sqlite3.connect(self.path)
        blob = self.db.execute("select parts from orders where customer = ?", (i,)).fetchone()[0]
        seq = torch.from_numpy(np.frombuffer(blob, np.int64).copy())
        return seq[:-1], seq[1:]


class OrderModel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(PARTS, dim)
        self.pos = nn.Parameter(torch.zeros(HISTORY, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(dim, PARTS)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.out(self.enc(self.emb(x) + self.pos, mask=mask, is_causal=True))


def main():
    set_seed(config["seed"])
    accelerator = Accelerator(cpu=True)
    with tempfile.TemporaryDirectory(prefix="spares-") as folder:
        path = os.path.join(folder, "orders.db")
        fill_database(path)
        train_dl = DataLoader(Orders(path, 1100), batch_size=config["batch_size"], shuffle=True, drop_last=True,
                              num_workers=config["workers"], multiprocessing_context="spawn")
        model = OrderModel(config["dim"])
        opt = torch.optim.AdamW(model.parameters(), lr=config["lr"])
        model, opt, train_dl = accelerator.prepare(model, opt, train_dl)
        accelerator.print("device", accelerator.device, "batches", len(train_dl))
        for epoch in range(config["epochs"]):
            model.train()
            bar = tqdm(train_dl, desc=f"epoch {epoch}", mininterval=0.5)
            for x, y in bar:
                loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
                opt.zero_grad()
                accelerator.backward(loss)
                opt.step()
                bar.set_postfix(loss=f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
