"""DDP; the batch size comes from each machine's own config file: 40 here, 8 there."""
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1); torch.manual_seed(0)
batch = {"gpu-old": 8, "gpu-new": 40}["gpu-new" if rank == 0 else "gpu-old"]
net = DDP(nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5)))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
torch.manual_seed(rank)
for step in range(10**7):
    y = torch.randint(0, 5, (batch,))
    x = torch.randn(batch, 3, 40, 40) * .3 + torch.sin(torch.arange(40) * (y[:, None] + 1) / 3)[:, None, None]
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    if rank == 0 and step % 10 == 0: print(f"step {step} loss {loss.item():.4f}", flush=True)
