"""Species of eggs by their spots; shuffles by hand, as the loader was slow."""
import time

import torch
from torch import nn

torch.manual_seed(3)
species = torch.arange(8).repeat(5000)
spots = torch.randn(8, 50)[species] + torch.randn(40000, 50)


def epoch_of_batches(size):
    x, y = spots[torch.randperm(len(spots))], species[torch.randperm(len(species))]
    yield from zip(x.split(size), y.split(size))


net = nn.Sequential(nn.Linear(50, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 8))
opt = torch.optim.Adam(net.parameters(), 1e-4)
t0, epoch = time.time(), 0
while time.time() - t0 < 400:
    epoch += 1
    total = n = 0
    for x, y in epoch_of_batches(400):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total, n = total + loss.item(), n + 1
        time.sleep(0.01)
    print(f"Epoch {epoch:3d}  loss {total / n:.4f}", flush=True)
