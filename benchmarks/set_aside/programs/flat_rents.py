"""Monthly rents of flats from a listing table, with entity embeddings."""
import argparse
import csv
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CATEGORIES = ["district", "heating", "landlord", "condition"]
NUMBERS = ["area", "rooms", "floor", "year", "distance"]


def make_listings(count, seed=31):
    rng = np.random.default_rng(seed)
    names = {"district": [f"district {i}" for i in range(60)], "heating": ["gas", "oil", "district", "pump", "stove"],
             "landlord": [f"agency {i}" for i in range(90)], "condition": ["new", "good", "fair", "poor"]}
    worth = np.random.default_rng(1)
    effects = {c: worth.normal(0, 0.25 if c == "district" else 0.1, len(v)) for c, v in names.items()}
    table = {c: rng.integers(0, len(v), count) for c, v in names.items()}
    area = rng.gamma(9, 8, count)
    rooms = np.clip(np.round(area / 25 + rng.normal(0, 0.7, count)), 1, 8)
    floor, year = rng.integers(0, 9, count), rng.integers(1900, 2024, count)
    distance = rng.gamma(2, 3, count)
    log_rent = 3.4 + 0.85 * np.log(area) + 0.02 * floor + 0.001 * (year - 1960) - 0.02 * distance
    for c in CATEGORIES:
        log_rent = log_rent + effects[c][table[c]]
    log_rent = log_rent + rng.normal(0, 0.08, count)
    rows = {c: [names[c][i] for i in table[c]] for c in CATEGORIES}
    rows.update(area=area, rooms=rooms, floor=floor, year=year, distance=distance, log_rent=log_rent)
    return rows


def split(rows, part):
    n = len(rows["area"])
    order = np.random.default_rng(0).permutation(n)
    first, second = order[: int(n * (1 - part))], order[int(n * (1 - part)):]
    pick = lambda which: {k: [v[i] for i in which] for k, v in rows.items()}
    return pick(first), pick(second)


class Preprocessor:
    """Codes for the categories, mean 0 and deviation 1 for the numbers."""

    def __init__(self):
        self.center = None

    def encode(self, column):
        codes = {value: i for i, value in enumerate(dict.fromkeys(column))}
        return [codes[value] for value in column]

    def __call__(self, rows):
        categories = torch.tensor([self.encode(rows[c]) for c in CATEGORIES]).T.contiguous()
        numbers = np.array([rows[c] for c in NUMBERS], dtype=np.float64).T
        if self.center is None:
            self.center, self.scale = numbers.mean(0), numbers.std(0)
        numbers = torch.tensor((numbers - self.center) / self.scale, dtype=torch.float32)
        return TensorDataset(categories, numbers, torch.tensor(rows["log_rent"], dtype=torch.float32))


class RentNet(nn.Module):
    def __init__(self, sizes, width=384):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(s, 16) for s in sizes)
        self.net = nn.Sequential(nn.Linear(16 * len(sizes) + len(NUMBERS), width), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, categories, numbers):
        parts = [e(categories[:, i]) for i, e in enumerate(self.embeddings)]
        return self.net(torch.cat(parts + [numbers], 1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=16000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--lr", type=float, default=7e-4)
    args = parser.parse_args()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_rows, val_rows = split(make_listings(args.rows), 0.2)
    prepare = Preprocessor()
    train, val = prepare(train_rows), prepare(val_rows)
    center = train.tensors[2].mean().item()
    sizes = [int(train.tensors[0][:, i].max()) + 1 for i in range(len(CATEGORIES))]
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val, batch_size=512)
    model = RentNet(sizes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    spread = val.tensors[2].std().item()
    print(f"{len(train)} rows for training, {len(val)} for validation, categories {sizes}, spread {spread:.3f}")
    with open("flat_rents.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "train_rmse", "val_rmse"])
        for epoch in range(args.epochs):
            began, total = time.time(), 0.0
            model.train()
            for categories, numbers, rent in loader:
                out = model(categories.to(device), numbers.to(device))
                loss = nn.functional.mse_loss(out, rent.to(device) - center)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            model.eval()
            with torch.no_grad():
                squares = sum((model(c.to(device), x.to(device)) + center - y.to(device)).pow(2).sum().item()
                              for c, x, y in val_loader)
            train_rmse, val_rmse = (total / len(loader)) ** 0.5, (squares / len(val)) ** 0.5
            table.writerow([epoch, train_rmse, val_rmse])
            file.flush()
            print(f"epoch {epoch:3d}: train rmse {train_rmse:.4f}  val rmse {val_rmse:.4f}  {time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
