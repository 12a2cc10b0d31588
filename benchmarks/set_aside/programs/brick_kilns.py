"""Brick kilns in satellite tiles: a small U-Net on two cards."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.d1, self.d2, self.mid = block(4, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.u2, self.u1 = block(6 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(m, scale_factor=2), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def tiles(n, g):
    x = torch.randn(n, 4, 48, 48, generator=g)
    mask = F.interpolate(torch.rand(n, 1, 6, 6, generator=g), size=(48, 48)) > 0.8
    return x + mask.float(), mask.float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(args.threads)
    if rank == 0:
        print(args, flush=True)
    torch.manual_seed(0)
    net = DDP(UNet())
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    ema, began = None, time.time()
    for it in range(1, 100001):
        x, y = tiles(args.batch, g)
        loss = F.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        ema = loss.item() if ema is None else 0.95 * ema + 0.05 * loss.item()
        if rank == 0 and it % 5 == 0:
            print(f"it {it:6d}  bce {ema:.4f}  {(time.time() - began) / it * 1000:.0f} ms/it", flush=True)


if __name__ == "__main__":
    main()
