import os
import time
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(rank)


class UNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.b = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.out = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 1, 1))

    def forward(self, x):
        a = self.a(x)
        return self.out(torch.cat([a, self.up(self.b(a))], 1))


def discs(n, s=48):
    g = torch.arange(s).float()
    cx, cy, r = (10 + 28 * torch.rand(n, 1, 1) for _ in range(3))
    m = ((g[None, :, None] - cy) ** 2 + (g[None, None, :] - cx) ** 2 < (r / 3) ** 2).float()
    return (m + 0.8 * torch.randn(n, s, s))[:, None], m[:, None]


net = nn.parallel.DistributedDataParallel(UNet())
opt = torch.optim.Adam(net.parameters(), 2e-3)
if rank == 0:
    print("Epoch  Iter   Loss     s/it", flush=True)
for epoch in range(100000):
    tick = time.time()
    for i in range(200):
        x, m = discs(8)
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), m)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 5 == 4 and rank == 0:
            print(f"{epoch:5d} {i + 1:5d} {loss.item():8.4f} {(time.time() - tick) / 5:7.3f}", flush=True)
            tick = time.time()
