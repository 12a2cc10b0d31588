#!/usr/bin/env python3
# Cloud masks from multispectral tiles, a U-Net that is small enough for the satellite.
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, bands=4, w=16):
        super().__init__()
        self.d1, self.d2, self.d3 = conv(bands, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.u2, self.u1 = conv(6 * w, 2 * w), conv(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def tiles(n, size, g):
    field = F.interpolate(torch.randn(n, 1, 6, 6, generator=g), size=(size, size), mode="bilinear")
    cloud = (field > 0.25).float()
    ground = F.interpolate(torch.randn(n, 4, 12, 12, generator=g), size=(size, size))
    return 0.6 * ground + cloud * (1 + 0.4 * torch.randn(n, 4, size, size, generator=g)), cloud


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=64)
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--limit", type=int, default=215, help="seconds")
    a = ap.parse_args()
    dist.init_process_group("gloo", init_method="env://")
    rank = dist.get_rank()
    device = f"cuda:{int(os.environ['LOCAL_RANK'])}"
    print(json.dumps({"rank": rank, "world": dist.get_world_size(), "device": device}), flush=True)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(UNet())
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    g = torch.Generator().manual_seed(100 + rank)
    t0, step = time.time(), 0
    while True:
        x, m = tiles(a.bs, a.size, g)
        p = net(x)
        loss = F.binary_cross_entropy_with_logits(p, m)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 10 == 0:
            t = torch.tensor([loss.item(), float(time.time() - t0 > a.limit)])
            dist.all_reduce(t)
            if rank == 0:
                iou = ((p > 0) & (m > 0)).sum() / ((p > 0) | (m > 0)).sum().clamp(min=1)
                print(json.dumps({"step": step, "bce": round(t[0].item() / 2, 4), "iou": round(iou.item(), 3), "t": round(time.time() - t0, 1)}), flush=True)
            if t[1] > 0:
                break


if __name__ == "__main__":
    main()
