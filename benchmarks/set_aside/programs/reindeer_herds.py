"""Density maps of reindeer herds from the air. Both cards; see reindeer_herds.sh."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Counter(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, padding=2, dilation=2), nn.ReLU(),
            nn.Conv2d(2 * c, 1, 1), nn.Softplus(),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)


def scenes(n):
    herd = torch.zeros(n, 1, 64, 64)
    for k in range(n):
        m = int(torch.randint(3, 40, (1,)))
        herd[k, 0, torch.randint(0, 64, (m,)), torch.randint(0, 64, (m,))] = 1.0
    kernel = torch.ones(1, 1, 3, 3)
    x = F.conv2d(herd, kernel, padding=1) + 0.3 * torch.randn(n, 1, 64, 64)
    return x, F.avg_pool2d(herd, 2) * 4


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--channels", type=int, default=16)
    ap.add_argument("--batch", type=int, default=8)
    a = ap.parse_args()
    dist.init_process_group("gloo")
    r = dist.get_rank()
    torch.manual_seed(100 + r)
    net = nn.parallel.DistributedDataParallel(Counter(a.channels))
    opt = torch.optim.Adam(net.parameters(), 5e-4)
    tick = time.time()
    for i in range(1, 10**6):
        x, y = scenes(a.batch)
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 25 == 0 and r == 0:
            now = time.time()
            print(f"[{i}] mse={loss.item():.5f} {25 * a.batch * 2 / (now - tick):.0f} scenes/s", flush=True)
            tick = now
