"""Predicts the next purchase. Customers are in an SQLite file that the ETL writes (here: made up when it is missing)."""
import argparse
import os
import random
import sqlite3
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def make_db(path, customers=30000, rows=8):
    random.seed(0)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE purchases (customer TEXT, day INTEGER, product INTEGER, amount REAL)")
    order = [c for c in range(customers) for _ in range(rows)]
    random.shuffle(order)
    db.executemany(
        "INSERT INTO purchases VALUES (?, ?, ?, ?)",
        ((f"C{c:07d}", random.randrange(365), (c * 7 + random.randrange(3)) % 200, random.random()) for c in order),
    )
    db.commit()
    db.close()


class Purchases(Dataset):
    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.customers = [r[0] for r in self.db.execute("SELECT DISTINCT customer FROM purchases")]

    def __len__(self):
        return len(self.customers)

    def __getitem__(self, i):
        q = "SELECT product, amount FROM purchases WHERE customer = ? ORDER BY day"
        rows = self.db.execute(q, (self.customers[i],)).fetchall()
        rows = rows[:8]
        return torch.tensor([r[0] for r in rows[:-1]]), torch.tensor([r[1] for r in rows[:-1]]), rows[-1][0]


class NextProduct(nn.Module):
    def __init__(self, products=200, d=128):
        super().__init__()
        self.emb = nn.Embedding(products, d)
        self.gru = nn.GRU(d + 1, 256, 2, batch_first=True)
        self.out = nn.Linear(256, products)

    def forward(self, p, a):
        return self.out(self.gru(torch.cat([self.emb(p), a[..., None]], 2))[0][:, -1])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--db")
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    if args.db is None:
        args.db = os.path.join(tempfile.mkdtemp(), "purchases.db")
        make_db(args.db)
    ds = Purchases(args.db)
    print(f"{len(ds)} customers, {args}", flush=True)
    loader = DataLoader(ds, args.batch_size, shuffle=True, drop_last=True)
    net = NextProduct()
    opt = torch.optim.Adam(net.parameters(), args.lr)
    for epoch in range(1000):
        for i, (p, a, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(p, a), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} [{i}/{len(loader)}] loss: {loss.item():.4f}", flush=True)
