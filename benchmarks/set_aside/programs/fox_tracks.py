"""Classify animal tracks in snow. Distributed part copied from the torchvision references."""
import argparse
import datetime
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler


def init_distributed_mode(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        args.gpu = int(os.environ["LOCAL_RANK"])
    else:
        print("Not using distributed mode")
        args.distributed, args.rank, args.world_size, args.gpu = False, 0, 1, 0
        return
    args.distributed = True
    if torch.cuda.is_available():
        torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    dist.barrier()


class Tracks(Dataset):
    """fox, hare, deer, dog, marten, squirrel: a few prints on a noisy patch of snow"""

    def __init__(self, n=3000, size=56):
        g = torch.Generator().manual_seed(0)
        self.y = torch.randint(6, (n,), generator=g)
        toes = torch.tensor([4, 2, 2, 4, 5, 5])
        gap = torch.tensor([4.0, 7.0, 3.0, 6.0, 5.0, 2.5])
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.x = torch.empty(n, 1, size, size)
        for i in range(n):
            img = 0.35 * torch.randn(size, size, generator=g)
            cx, cy = (18 + 20 * torch.rand(2, generator=g)).tolist()
            k = int(toes[self.y[i]])
            for j in range(k):
                tx, ty = cx + (j - k / 2) * float(gap[self.y[i]]), cy - 6 + abs(j - k / 2)
                img -= torch.exp(-((xx - tx) ** 2 + (yy - ty) ** 2) / 5.0)
            self.x[i, 0] = img - torch.exp(-((xx - cx) ** 2 + (yy - cy - 4) ** 2) / 18.0)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(8, c), nn.GroupNorm(8, c)

    def forward(self, x):
        return F.relu(x + self.n2(self.b(F.relu(self.n1(self.a(x))))))


def build():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, stride=2, padding=2), Res(32), nn.Conv2d(32, 64, 3, stride=2, padding=1), Res(64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 6),
    )


def train_one_epoch(model, loader, opt, device, epoch, args):
    model.train()
    start = time.time()
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % args.print_freq == 0 and args.rank == 0:
            eta = datetime.timedelta(seconds=int((time.time() - start) / (i + 1) * (len(loader) - i)))
            print(f"Epoch: [{epoch}]  [{i}/{len(loader)}]  eta: {eta}  lr: {opt.param_groups[0]['lr']:.5f}  loss: {loss.item():.4f}")


def main(args):
    init_distributed_mode(args)
    print(args)
    torch.manual_seed(args.rank)
    device = torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")
    data = Tracks()
    sampler = DistributedSampler(data) if args.distributed else RandomSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = build().to(device)
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu] if torch.cuda.is_available() else None)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, 12, 0.3)
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        train_one_epoch(model, loader, opt, device, epoch, args)
        sched.step()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=90)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--print-freq", type=int, default=10)
    main(p.parse_args())
