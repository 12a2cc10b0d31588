# Barlow Twins on unlabelled satellite tiles of forests. Loss as in the authors' repository.
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--epochs", default=300, type=int)
p.add_argument("--batch-size", default=128, type=int, help="over all processes")
p.add_argument("--projector", default="128-128-128")
p.add_argument("--lambd", default=0.0051, type=float)
p.add_argument("--print-freq", default=5, type=int)


def off_diagonal(x):
    n, m = x.shape
    return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class BarlowTwins(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.backbone = nn.Sequential(
            nn.Conv2d(4, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.BatchNorm2d(48), nn.ReLU(),
            nn.Conv2d(48, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        sizes = [64] + list(map(int, args.projector.split("-")))
        layers = []
        for i in range(len(sizes) - 2):
            layers += [nn.Linear(sizes[i], sizes[i + 1], bias=False), nn.BatchNorm1d(sizes[i + 1]), nn.ReLU(inplace=True)]
        layers.append(nn.Linear(sizes[-2], sizes[-1], bias=False))
        self.projector = nn.Sequential(*layers)
        self.bn = nn.BatchNorm1d(sizes[-1], affine=False)

    def forward(self, y1, y2):
        z1, z2 = self.projector(self.backbone(y1)), self.projector(self.backbone(y2))
        c = self.bn(z1).T @ self.bn(z2)
        c.div_(self.args.batch_size)
        c = SumOverRanks.apply(c)
        on_diag = torch.diagonal(c).add_(-1).pow_(2).sum()
        off_diag = off_diagonal(c).pow_(2).sum()
        return on_diag + self.args.lambd * off_diag


def tiles(n, seed):
    g = torch.Generator().manual_seed(seed)
    coarse = F.interpolate(torch.randn(n, 4, 5, 5, generator=g), size=40, mode="bicubic")
    trees = F.interpolate(torch.randn(n, 1, 20, 20, generator=g), size=40)
    return coarse + 0.6 * trees * torch.rand(n, 4, 1, 1, generator=g)


def view(x):
    r, c = torch.randint(0, 9, (2,))
    x = x[:, :, r : r + 32, c : c + 32]
    if torch.rand(1) < 0.5:
        x = x.flip(3)
    x = x * (0.7 + 0.6 * torch.rand(len(x), 4, 1, 1)) + 0.3 * torch.randn(len(x), 4, 1, 1)
    return x + 0.1 * torch.randn_like(x)


def main_worker(rank, args):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%s" % os.environ.get("PORT", "58472"), world_size=2, rank=rank)
    torch.manual_seed(3)
    model = nn.parallel.DistributedDataParallel(BarlowTwins(args))
    params = [[q for q in model.parameters() if q.ndim > 1], [q for q in model.parameters() if q.ndim == 1]]
    opt = torch.optim.SGD([{"params": params[0], "weight_decay": 1e-5}, {"params": params[1]}], lr=0.03, momentum=0.9)
    data = tiles(4000, 0)
    sampler = torch.utils.data.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size // 2, sampler=sampler, drop_last=True)
    torch.manual_seed(50 + rank)
    start = time.time()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, x in enumerate(loader, start=epoch * len(loader)):
            loss = model(view(x), view(x))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % args.print_freq == 0 and rank == 0:
                print(json.dumps(dict(epoch=epoch, step=step, loss=round(loss.item(), 3), time=int(time.time() - start))), flush=True)


if __name__ == "__main__":
    mp.spawn(main_worker, (p.parse_args(),), 2)
