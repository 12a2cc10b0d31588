"""Bird calls, few labels: 512 clips, so the epochs are short. config at the top, results in stdout."""
import json
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

EPOCHS, BATCH, WORKERS, LR = 1000, 32, 2, 1e-3
INDEX = Path(tempfile.gettempdir()) / "bird-calls-index.json"


def make_index(path):
    g = torch.Generator().manual_seed(0)
    rows = [
        {"id": i, "species": int(i % 20), "site": f"plot-{i % 37}", "peaks": [round(v, 3) for v in torch.rand(24, generator=g).tolist()]}
        for i in range(110_000)
    ]
    path.write_text(json.dumps(rows))


class Calls(Dataset):
    """The index is large and is read where it is used, so that it is not copied to the workers."""

    def __init__(self, path, labelled=512):
        self.path, self.n, self.rows = path, labelled, None

    def open(self):
        self.rows = {row["id"]: row for row in json.loads(self.path.read_text())}

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        row = self.rows[i * 7]
        x = torch.randn(1, 32, 48) * 0.5
        x[0, row["species"]] += torch.tensor(row["peaks"] * 2)
        return x, row["species"]


def open_index(_):
    get_worker_info().dataset.open()


def main():
    print("writing index ...", flush=True)
    make_index(INDEX)
    loader = DataLoader(Calls(INDEX), batch_size=BATCH, shuffle=True, num_workers=WORKERS, worker_init_fn=open_index)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(48 * 64, 20)
    )
    opt = torch.optim.Adam(model.parameters(), LR)
    for epoch in range(EPOCHS):
        t0 = time.time()
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i == 0:
                first = time.time() - t0
        print(f"epoch {epoch}: loss {loss.item():.4f}, {time.time() - t0:.1f} s (first batch after {first:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
