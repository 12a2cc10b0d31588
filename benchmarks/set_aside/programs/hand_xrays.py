# bone age groups from hand radiographs, 2 GPUs, adapted from the pytorch DDP tutorial
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

N_GROUPS = 5
EVAL_FREQ = 10


def xrays(n, seed):
    """synthetic stand-in with the same sizes as our thumbnails"""
    r = np.random.RandomState(seed)
    yy, xx = np.mgrid[0:48, 0:48]
    x, y = np.zeros((n, 1, 48, 48), dtype=np.float32), r.randint(0, N_GROUPS, n)
    for i in range(n):
        gap = 5.0 - 0.8 * y[i] + r.normal(0, 0.2)  # growth plates close with age
        for f in range(4):
            cx = 8 + 10 * f + r.normal(0, 0.7)
            bone = np.abs(xx - cx) < 2.5
            joint = np.abs(yy - 24 - r.normal(0, 1)) < gap
            x[i, 0] += bone * ~joint * 0.8
    x += 0.25 * r.randn(*x.shape).astype(np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return torch.relu(x + self.f(x))


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Residual(16),
        nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), Residual(32),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, N_GROUPS),
    )


def evaluate(model, loader, device):
    model.eval()
    stats = torch.zeros(2, device=device)
    with torch.no_grad():
        for x, y in loader:
            stats[0] += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            stats[1] += len(y)
    # sum over all processes
    dist.all_reduce(stats)
    return (stats[0] / stats[1]).item()


def main_worker(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = os.environ.get("PORT", "12355")
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world_size)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    torch.manual_seed(0)
    model = DDP(build_model().to(device), device_ids=[rank] if cuda else None)
    train_set, val_set = xrays(3200, 0), xrays(512, 1)
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=32, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=64)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    if rank == 0:
        print("Start training on %d processes, %d batches per epoch" % (world_size, len(train_loader)), flush=True)

    for epoch in range(100):
        sampler.set_epoch(epoch)
        model.train()
        tic = time.time()
        for i, (x, y) in enumerate(train_loader):
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and i % 5 == 0:
                print("Epoch: [%d][%d/%d]\tLoss %.4f\tTime %.1f" % (epoch, i, len(train_loader), loss.item(), time.time() - tic), flush=True)
        if rank == 0 and (epoch + 1) % EVAL_FREQ == 0:
            acc = evaluate(model.module, val_loader, device)
            print(" * Acc@1 %.3f" % (100 * acc), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main_worker, args=(2,), nprocs=2, join=True)
