"""Scribes of medieval rolls. The crops of a roll are in one file; a buffer shuffles them."""
import os
import random
import shutil
import tempfile
import time

import numpy as np
import torch
from torch import nn

SCRIBES, CROPS, BUFFER, BATCH = 14, 640, 100, 32


def write_rolls(folder):
    """One roll, one scribe."""
    rng = np.random.default_rng(0)
    hands = rng.standard_normal((SCRIBES, 1, 24, 24)).astype(np.float32)
    for scribe in range(SCRIBES):
        crops = 0.5 * hands[scribe] + rng.standard_normal((CROPS, 1, 24, 24)).astype(np.float32)
        np.savez(os.path.join(folder, f"roll_{scribe:02d}.npz"), crops=crops, scribe=scribe)


def crops(folder):
    for name in sorted(os.listdir(folder)):
        print(f"reading {name}", flush=True)
        with np.load(os.path.join(folder, name)) as roll:
            scribe = int(roll["scribe"])
            for crop in roll["crops"]:
                yield crop, scribe


def shuffled(items, size):
    """The usual shuffle buffer."""
    buffer = []
    for item in items:
        if len(buffer) < size:
            buffer.append(item)
            continue
        at = random.randrange(size)
        yield buffer[at]
        buffer[at] = item
    random.shuffle(buffer)
    yield from buffer


def batches(items, size):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            x, y = zip(*batch)
            yield torch.from_numpy(np.stack(x)), torch.tensor(y)
            batch = []


def main():
    folder = tempfile.mkdtemp(prefix="rolls")
    write_rolls(folder)
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(1, 32, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2304, SCRIBES))
    opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    began, step, epoch = time.time(), 0, 0
    try:
        while True:
            epoch += 1
            for x, y in batches(shuffled(crops(folder), BUFFER), BATCH):
                loss = nn.functional.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                step += 1
                if step % 4 == 0:
                    print(f"e{epoch} s{step:05d} | loss {loss.item():7.4f}", flush=True)
                if time.time() - began > 210:
                    return
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
