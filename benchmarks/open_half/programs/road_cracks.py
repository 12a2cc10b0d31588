"""Road crack detector (grid cells), DDP on one node.  config -> Trainer -> Logger

$ torchrun --nproc_per_node 2 road_cracks.py
"""
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CFG = dict(size=64, n=6000, bs=8, lr=1e-3, epochs=100, bins=512, seed=1)


class Roads(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        s = self.size
        img = 0.4 * torch.randn(1, s, s, generator=g)
        cells = torch.zeros(8, 8)
        for _ in range(3):
            r, c = torch.randint(0, s, (2,), generator=g).tolist()
            for step in torch.randint(-1, 2, (40,), generator=g).tolist():
                r, c = min(max(r + step, 0), s - 1), min(c + 1, s - 1)
                img[0, r, c] -= 1.6
                cells[r // 8, c // 8] = 1
        return img, cells


class Net(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.body = nn.Sequential(block(1, w), block(w, 2 * w), block(2 * w, 4 * w))
        self.mid = nn.Sequential(nn.Conv2d(4 * w, 8 * w, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(8 * w, 1, 1)

    def forward(self, x):
        return self.head(self.mid(self.body(x))).squeeze(1)


class Logger:
    """Scalars, and histograms of weights and gradients, one json line per step."""

    def __init__(self, folder):
        self.f = open(os.path.join(folder, "events.jsonl"), "w")
        self.size = 0

    def log(self, step, loss, model):
        row = {"step": step, "loss": loss}
        for name, p in model.named_parameters():
            for kind, t in (("weight", p.data), ("grad", p.grad)):
                counts, edges = torch.histogram(t.float().flatten(), bins=CFG["bins"])
                q = torch.quantile(t.float().flatten()[:1_000_000], torch.linspace(0, 1, 21))
                row[f"{kind}/{name}"] = [counts.tolist(), edges.tolist(), q.tolist()]
        if self.size > 200_000_000:  # rotate
            self.f.seek(0)
            self.f.truncate()
            self.size = 0
        self.size += self.f.write(json.dumps(row) + "\n")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        print(CFG, flush=True)
    torch.manual_seed(CFG["seed"])
    data = Roads(CFG["n"], CFG["size"])
    sampler = DistributedSampler(data, shuffle=True, seed=CFG["seed"])
    loader = DataLoader(data, batch_size=CFG["bs"], sampler=sampler, drop_last=True)
    model = DistributedDataParallel(Net())
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    crit = nn.BCEWithLogitsLoss()
    with tempfile.TemporaryDirectory() as tmp:
        logger = Logger(tmp) if rank == 0 else None
        step, t0 = 0, time.time()
        for epoch in range(CFG["epochs"]):
            sampler.set_epoch(epoch)
            for x, y in loader:
                loss = crit(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                step += 1
                if logger is not None:
                    logger.log(step, loss.item(), model.module)
                    if step % 10 == 0:
                        print(f"epoch {epoch} step {step} loss {loss.item():.4f} t {time.time() - t0:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
