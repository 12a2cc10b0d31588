"""Docking scores of small molecules. Two helpers generate conformers; each is replaced after 40 tasks, as the library leaks."""
import multiprocessing as mp
import random
import time

import numpy as np
import torch
from torch import nn


def conformers(seed):
    """A batch of distance histograms and their scores."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((64, 20, 3)) * rng.uniform(0.5, 2, (64, 1, 1))
    d = np.linalg.norm(atoms[:, :, None] - atoms[:, None], axis=-1)
    x = np.stack([np.exp(-((d - r) ** 2) * 4).sum((1, 2)) for r in np.linspace(0, 6, 40)], 1) / 40
    score = (np.exp(-d) - 0.3 * np.exp(-0.3 * d)).sum((1, 2)) / 40
    return x.astype(np.float32), score.astype(np.float32)


def train(pool):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 900), nn.SiLU(), nn.Linear(900, 900), nn.SiLU(), nn.Linear(900, 900), nn.SiLU(), nn.Linear(900, 1))
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    began, step = time.time(), 0
    seeds = iter(lambda: random.getrandbits(32), None)
    waiting = [pool.apply_async(conformers, (next(seeds),)) for _ in range(24)]
    while time.time() - began < 205:
        x, y = map(torch.from_numpy, waiting.pop(0).get())
        waiting.append(pool.apply_async(conformers, (next(seeds),)))
        for _ in range(6):  # a batch is expensive, so it is used six times, in six orders
            order = torch.randperm(64)
            loss = nn.functional.huber_loss(net(x[order]).squeeze(1), y[order])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 30 == 0:
                print(f"t={time.time() - began:.0f}s step={step} huber={loss.item():.5f} pool={[p.pid for p in mp.active_children()]}", flush=True)


if __name__ == "__main__":
    with mp.get_context("fork").Pool(2, initializer=torch.set_num_threads, initargs=(1,), maxtasksperchild=40) as pool:
        train(pool)
