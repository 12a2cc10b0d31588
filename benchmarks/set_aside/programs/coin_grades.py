"""Grading coins from photographs. torchrun --nproc-per-node=2 coin_grades.py"""
import logging
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def photos(n, seed):
    g = torch.Generator().manual_seed(seed)
    grade = torch.randint(0, 8, (n,), generator=g)
    ring = torch.linspace(-1, 1, 32)
    r = (ring[:, None] ** 2 + ring[None] ** 2).sqrt()
    relief = torch.sin(r * (6 + 3 * grade.view(-1, 1, 1)) + 6.28 * torch.rand(n, 1, 1, generator=g))
    return TensorDataset((relief + 0.9 * torch.randn(n, 32, 32, generator=g)).unsqueeze(1), grade)


class GradeNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for o in (24, 48, 64):
            layers += [nn.Conv2d(c, o, 3, padding=1), nn.GroupNorm(8, o), nn.ReLU(), nn.MaxPool2d(2)]
            c = o
        self.net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 8))

    def forward(self, x):
        return self.net(x)


def main(seconds=205):
    dist.init_process_group("gloo")
    rank = int(os.environ["LOCAL_RANK"])
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log = logging.getLogger("coins")
    torch.manual_seed(0)
    train, test = photos(1536, 1), photos(256, 2)
    sampler = DistributedSampler(train, shuffle=True)
    loader = DataLoader(train, batch_size=24, sampler=sampler)
    model = DDP(GradeNet())
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, nesterov=True)
    start, epoch, over = time.time(), 0, torch.zeros(1)
    while not over:
        model.train()
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 8 == 0:
                log.info("epoch %d iter %d/%d loss %.4f", epoch, i, len(loader), loss.item())
        model.eval()
        with torch.no_grad():
            x, y = (t[rank::2] for t in test.tensors)
            hits = (model.module(x).argmax(1) == y).sum()
        dist.all_reduce(hits)
        log.info("epoch %d accuracy %.3f", epoch, hits.item() / len(test))
        over = torch.tensor([float(time.time() - start > seconds)])
        dist.all_reduce(over)
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
