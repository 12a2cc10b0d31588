"""Puts the fragments of a mural together: do two pieces share an edge?"""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = dict(pairs=480, batch=24, workers=2, epochs=500, lr=1e-3, print_every=10)


class Fragments(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        mural = nn.functional.interpolate(torch.randn(1, 3, 6, 6, generator=g), size=(32, 64), mode="bicubic")[0]
        left, right = mural[:, :, :32], mural[:, :, 32:]
        label = i % 2
        if not label:
            right = right.flip(1) + 0.1 * torch.randn(3, 32, 32, generator=g)
        return torch.cat([left, right]), label


def build():
    return nn.Sequential(
        nn.Conv2d(6, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 2),
    )  # fmt: skip


def run(cfg):
    torch.manual_seed(0)
    # spawn: the scans are read with a library that does not survive a fork
    loader = DataLoader(Fragments(cfg["pairs"]), cfg["batch"], shuffle=True, num_workers=cfg["workers"], multiprocessing_context="spawn")
    net = build()
    opt = torch.optim.AdamW(net.parameters(), cfg["lr"])
    for epoch in range(cfg["epochs"]):
        t0, hits = time.time(), 0
        for i, (x, y) in enumerate(loader):
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (out.argmax(1) == y).sum().item()
            if i % cfg["print_every"] == 0:
                print(f"  {epoch}.{i:02d} loss {loss.item():.3f}", flush=True)
        print(f"epoch {epoch}: {hits / cfg['pairs']:.3f} right, {time.time() - t0:.1f} s", flush=True)


if __name__ == "__main__":
    run(CONFIG)
