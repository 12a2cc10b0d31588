"""Progressive resizing, as in DAWNBench entries: 24 px first, 96 px at the end."""
import os, itertools
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SCHEDULE = [(24, 100), (32, 100), (40, 80), (48, 80), (64, 60), (80, 60), (96, 10**7)]

def pictures(size, n=12):
    y = torch.randint(0, 4, (n,))
    grid = torch.linspace(0, 6.28, size)
    wave = torch.sin(grid[None] * (y[:, None] + 1))
    return wave[:, None, :, None] * torch.ones(n, 3, size, size) + .5 * torch.randn(n, 3, size, size), y

dist.init_process_group("gloo"); rank = dist.get_rank()
torch.set_num_threads(1); torch.manual_seed(0)
net = DDP(nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)))
opt = torch.optim.SGD(net.parameters(), .05, momentum=.9)
torch.manual_seed(rank + 10)
it = itertools.count(1)
for size, steps in SCHEDULE:
    if rank == 0: print(f"=== resolution {size}x{size} ===", flush=True)
    for _ in range(steps):
        x, y = pictures(size)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        i = next(it)
        if rank == 0 and i % 10 == 0: print(f"iter {i:6d} | loss {loss.item():.3f}", flush=True)
