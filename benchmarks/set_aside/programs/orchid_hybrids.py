# Parents of orchid hybrids from photographs (two labels each). DDP, started by orchid_hybrids.sh on the box with two cards.
from __future__ import annotations

import datetime
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim

GENERA, SIDE, PER_GPU, MINUTES = 20, 40, 24, 3.5


class Net(nn.Sequential):
    def __init__(self):
        def stage(i, o):
            return [nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.GroupNorm(4, o), nn.GELU(), nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.GroupNorm(4, o), nn.GELU()]

        super().__init__(*stage(3, 24), *stage(24, 48), *stage(48, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, GENERA))


def photographs(n, g):
    textures = torch.randn(GENERA, 3, 10, 10, generator=torch.Generator().manual_seed(8))
    parents = torch.stack([torch.randperm(GENERA, generator=g)[:2] for _ in range(n)])
    x = F.interpolate(textures[parents].mean(1), size=(SIDE, SIDE)) + 0.5 * torch.randn(n, 3, SIDE, SIDE, generator=g)
    return x, torch.zeros(n, GENERA).scatter_(1, parents, 1.0)


def say(text):
    if dist.get_rank() == 0:
        print(datetime.datetime.now().strftime("%H:%M:%S"), text, flush=True)


def main():
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    say(f"world size {world}; {PER_GPU} photographs per card, {PER_GPU * world} per step")
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Net())
    opt = optim.AdamW(net.parameters(), lr=4e-4 * world)
    g = torch.Generator().manual_seed(1000 + dist.get_rank())
    end = datetime.datetime.now() + datetime.timedelta(minutes=MINUTES)
    k = 0
    while True:
        x, y = photographs(PER_GPU, g)
        logits = net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        k += 1
        if k % 12 == 0:
            both = (logits.topk(2).indices.sort().values == y.topk(2).indices.sort().values).all(1).float().mean()
            stop = torch.tensor(float(datetime.datetime.now() > end))
            dist.all_reduce(stop)
            say(f"it {k:>5}  bce {loss:.4f}  both parents {both:.2f}  LR {opt.param_groups[0]['lr']:.1e}")
            if stop:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    main()
