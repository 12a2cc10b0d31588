"""DistributedDataParallel on gloo, rightly used or with a mistake: what the argument says."""

import contextlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

kind = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(5)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
model = DistributedDataParallel(inner)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = None if kind == "no-sampler" else DistributedSampler(data)
loader = DataLoader(data, batch_size=2, shuffle=True if sampler is None else None, sampler=sampler)


def train(epoch):
    for index, (inputs, targets) in enumerate(loader):
        last = index % 2 == 1
        synced = not last if kind == "inverted" else last
        with contextlib.nullcontext() if synced else model.no_sync():
            called = model.module if kind == "no-sampler" and epoch else model
            torch.nn.functional.mse_loss(called(inputs), targets).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


for epoch in range(3):
    if kind == "right":
        sampler.set_epoch(epoch)
    train(epoch)
if kind == "right":
    model.eval()
    with torch.no_grad():
        model(torch.randn(8, 4))
    dist.all_reduce(torch.ones(1))
elif kind == "inverted":
    model.module[2] = torch.nn.Linear(4, 1)
    model.module[0].double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        torch.stack([item.double().sum() for item in model.parameters()]).sum().backward()
        optimizer.step()
dist.barrier()
if kind == "no-sampler" and rank == 1:
    raise ValueError("a mistake of rank 1")
dist.destroy_process_group()
