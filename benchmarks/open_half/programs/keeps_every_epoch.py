"""Segmentation of small tiles; the run directory is on a disk that is slow to confirm: python keeps_every_epoch.py"""

import os
import tempfile
import time

import torch
from torch import nn


def save(state, path):
    with open(path, "wb") as out:
        torch.save(state, out)
        out.flush()
        os.fsync(out.fileno())
    time.sleep(1.2)  # the quota server answers


net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
run = tempfile.mkdtemp(prefix="tiles-")
started = time.time()
for step in range(1, 100000):
    tile = torch.rand(4, 3, 24, 24)
    mask = (tile.mean(1) > 0.5).long()
    loss = nn.functional.cross_entropy(net(tile), mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(f"[{time.time() - started:7.1f}s] step {step} loss {loss.item():.4f}", flush=True)
        save({"net": net.state_dict(), "opt": opt.state_dict(), "step": step}, os.path.join(run, f"{step:07d}.pt"))
        old = sorted(os.listdir(run))[:-3]
        for name in old:
            os.unlink(os.path.join(run, name))
