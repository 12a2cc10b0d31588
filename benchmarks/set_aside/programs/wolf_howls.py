"""Wolf howls, two ranks.  torchrun --nproc-per-node=2 wolf_howls.py"""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
os.chdir(tempfile.mkdtemp())
WAVES = torch.randn(64, 4000)


def features(i):
    """A cochleagram, one band after the other (cached on disk)."""
    path = f"howl-{i}.pt"
    if os.path.exists(path):
        return torch.load(path)
    bands, state = [], WAVES[i].tolist()
    for band in range(16):
        a, energy, y = 0.5 + band / 40, 0.0, 0.0
        for s in state[::2]:
            y = a * y + s
            energy += y * y
        bands.append(energy)
    out = torch.tensor(bands).log()
    if rank == 0:  # two writers once broke the cache
        torch.save(out, path)
    return out


net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 4)))
opt = torch.optim.Adam(net.parameters(), 1e-3)
t0 = time.time()
for step in range(1, 10**6):
    index = torch.randint(0, 64, (6,)).tolist()
    x = torch.stack([features(i) for i in index])
    loss = nn.functional.cross_entropy(net(x), torch.tensor(index) % 4)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"[{rank}] {step} loss {loss.item():.4f} {time.time() - t0:.1f}s", flush=True)
