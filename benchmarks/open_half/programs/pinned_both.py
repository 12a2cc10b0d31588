import os, time
import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

# surrogate for a plasma code: 12 parameters -> 200 radial points
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = DDP(nn.Sequential(nn.Linear(12, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 200)))
A = 0.4 * torch.randn(12, 200)
opt = torch.optim.Adam(net.parameters(), 5e-4)
torch.manual_seed(rank + 1)
t, n = time.time(), 0
for it in range(10**7):
    x = torch.rand(256, 12) * 2 - 1
    y = torch.sin(x @ A) * torch.exp(-0.1 * (x @ A) ** 2)
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    n += 256 * dist.get_world_size()
    if rank == 0 and it % 25 == 0:
        print(f"it {it:6d}  mse {loss.item():.5f}  {n / (time.time() - t):8.0f} samples/s  load {os.getloadavg()[0]:.1f}", flush=True)
        t, n = time.time(), 0
