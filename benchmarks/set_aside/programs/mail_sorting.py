import argparse
import logging
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
BOXES = {
    "a": (4, 6, 8, 20), "g": (13, 15, 8, 20), "d": (22, 24, 8, 20),
    "f": (4, 15, 7, 9), "b": (4, 15, 19, 21), "e": (13, 24, 7, 9), "c": (13, 24, 19, 21),
}  # fmt: skip


def digits(n, seed):
    gen = torch.Generator().manual_seed(seed)
    base = torch.zeros(10, 1, 28, 28)
    for k, names in enumerate(SEGMENTS):
        for s in names:
            r0, r1, c0, c1 = BOXES[s]
            base[k, 0, r0:r1, c0:c1] = 1.0
    y = torch.randint(0, 10, (n,), generator=gen)
    x = base[y]
    shift = torch.randint(-3, 4, (n, 2), generator=gen)
    x = torch.stack([torch.roll(img, (int(a), int(b)), (1, 2)) for img, (a, b) in zip(x, shift)])
    x = x * (0.5 + 0.5 * torch.rand(n, 1, 1, 1, generator=gen)) + 0.5 * torch.randn(n, 1, 28, 28, generator=gen)
    return TensorDataset(x, y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 32, 5, padding=2)
        self.c2 = nn.Conv2d(32, 64, 5, padding=2)
        self.f1 = nn.Linear(64 * 7 * 7, 256)
        self.f2 = nn.Linear(256, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.f2(F.relu(self.f1(x.flatten(1))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    # set by the launcher
    rank = int(os.environ.get("RANK", 0))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")

    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo", rank=rank, world_size=world_size)
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    logging.basicConfig(stream=sys.stdout, level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(message)s")
    logging.info("world size %d, rank %d, local rank %d, device %s", world_size, rank, local_rank, device)

    torch.manual_seed(0)
    train = digits(20000, 1)
    test = digits(2000, 2)
    sampler = DistributedSampler(train, world_size, rank, shuffle=True)
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True)
    test_loader = DataLoader(test, 500)
    model = DDP(Net().to(device), device_ids=[local_rank] if use_cuda else None)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr / 5, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 20 == 0:
                logging.info("epoch %d [%d/%d] loss %.4f", epoch, i, len(loader), loss.item())
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in test_loader:
                right += (model.module(x.to(device)).argmax(1) == y.to(device)).sum().item()
        logging.info("epoch %d test accuracy %.4f", epoch, right / len(test))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
