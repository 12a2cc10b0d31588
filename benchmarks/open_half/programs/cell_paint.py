"""Denoises cell painting images. Every second batch goes to a thread that writes previews, so that training does not wait."""
import argparse
import os
import queue
import tempfile
import threading
import time

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6000)
parser.add_argument("--quota-mb", type=int, default=4, help="previews may take this much")
parser.add_argument("--backlog", type=int, default=32)
opts = parser.parse_args()


class Previews(threading.Thread):
    def __init__(self, folder, quota, backlog):
        super().__init__(daemon=True)
        self.folder, self.quota, self.todo = folder, quota, queue.Queue(maxsize=backlog)

    def run(self):
        used = 0
        while True:
            step, image = self.todo.get()
            path = os.path.join(self.folder, f"{step:06d}.npy")
            np.save(path, image)
            used += os.path.getsize(path)
            if used > self.quota:
                return


def batch(rng, n=8, side=24):
    x = np.zeros((n, 5, side, side), np.float32)
    for img in x:
        for _ in range(6):
            r, c, ch = rng.integers(4, side - 5), rng.integers(4, side - 5), rng.integers(0, 5)
            img[ch, r - 3 : r + 4, c - 3 : c + 4] = rng.uniform(0.5, 1)
    return torch.from_numpy(x), torch.from_numpy(x + 0.3 * rng.standard_normal(x.shape).astype(np.float32))


with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(0)
    previews = Previews(folder, opts.quota_mb * 2**20, opts.backlog)
    previews.start()
    net = nn.Sequential(nn.Conv2d(5, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 5, 3, padding=1))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    began = time.time()
    for step in range(opts.steps):
        clean, noisy = batch(rng)
        out = net(noisy)
        loss = nn.functional.mse_loss(out, clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 2 == 0:
            previews.todo.put((step, out[:4].detach().numpy()), timeout=300)
        if step % 10 == 0:
            print(f"step {step} mse {loss.item():.5f} [{time.time() - began:.0f}s]", flush=True)
