# Boxes around barn owls. Trimmed from our fork of a detection repo: no matcher, one owl per picture.
import argparse
import datetime
import os
import time
from collections import defaultdict, deque

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler


def init_distributed_mode(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank = int(os.environ["RANK"])
        args.world_size = int(os.environ["WORLD_SIZE"])
        args.gpu = int(os.environ["LOCAL_RANK"])
    elif "SLURM_PROCID" in os.environ:
        args.rank = int(os.environ["SLURM_PROCID"])
        args.gpu = args.rank % max(1, torch.cuda.device_count())
    else:
        print("Not using distributed mode")
        args.distributed = False
        return
    args.distributed = True
    print(f"| distributed init (rank {args.rank}): {args.dist_url}", flush=True)
    dist.init_process_group(args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
    dist.barrier()


class Owls(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.randn(3, 56, 56, generator=g) * 0.4
        cx, cy = torch.randint(8, 48, (2,), generator=g).tolist()
        r = int(torch.randint(3, 8, (1,), generator=g))
        img[:, cy - r : cy + r, cx - r : cx + r] += 1.0
        return img, torch.tensor([cx, cy, 2 * r, 2 * r]) / 56


class MetricLogger:
    def __init__(self):
        self.values = defaultdict(lambda: deque(maxlen=20))

    def update(self, **kw):
        for k, v in kw.items():
            self.values[k].append(float(v))

    def __str__(self):
        return "  ".join(f"{k}: {sum(v) / len(v):.4f}" for k, v in self.values.items())

    def log_every(self, iterable, freq, header):
        end, began = time.time(), time.time()
        for i, obj in enumerate(iterable):
            self.update(data=time.time() - end)
            yield obj
            self.update(time=time.time() - end)
            if i % freq == 0:
                eta = datetime.timedelta(seconds=int((time.time() - began) / (i + 1) * (len(iterable) - i)))
                print(f"{header}  [{i:4d}/{len(iterable)}]  eta: {eta}  {self}", flush=True)
            end = time.time()


def build_model(dim):
    return nn.Sequential(
        nn.Conv2d(3, dim, 5, 2, 2), nn.GroupNorm(4, dim), nn.ReLU(),
        nn.Conv2d(dim, 2 * dim, 3, 1, 1), nn.GroupNorm(4, 2 * dim), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * dim, 2 * dim, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * dim * 49, 4), nn.Sigmoid(),
    )  # fmt: skip


def main(args):
    init_distributed_mode(args)
    print(args, flush=True)
    torch.manual_seed(args.seed)
    model = build_model(args.hidden_dim)
    data = Owls(args.n)
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model)
        sampler = DistributedSampler(data)
    else:
        sampler = RandomSampler(data)
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    print("number of params:", sum(p.numel() for p in model.parameters()))
    print("Start training", flush=True)
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        logger = MetricLogger()
        for img, box in logger.log_every(loader, 20, f"Epoch: [{epoch}]"):
            loss = nn.functional.l1_loss(model(img), box)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            logger.update(loss=loss.item(), lr=args.lr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser("owls", add_help=False)
    parser.add_argument("--lr", default=1e-4, type=float)
    parser.add_argument("--batch_size", default=16, type=int)
    parser.add_argument("--epochs", default=300, type=int)
    parser.add_argument("--hidden_dim", default=24, type=int)
    parser.add_argument("--n", default=4800, type=int)
    parser.add_argument("--seed", default=42, type=int)
    parser.add_argument("--dist_url", default="env://")
    parser.add_argument("--dist_backend", default="nccl" if torch.cuda.is_available() else "gloo")
    main(parser.parse_args())
