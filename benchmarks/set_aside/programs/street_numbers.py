"""House numbers, resumable. torchrun --nproc-per-node=2 street_numbers.py [--start-epoch N]"""
import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Numbers(Dataset):
    def __init__(self, n=4096):
        g = torch.Generator().manual_seed(9)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.x = torch.randn(10, 3, 24, 24, generator=g)[self.y] + 2 * torch.randn(n, 3, 24, 24, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=500)
    p.add_argument("--start-epoch", type=int, default=0, help="for resuming")
    p.add_argument("-b", "--batch-size", type=int, default=32)
    p.add_argument("--max-time", type=float, default=210)
    return p.parse_args()


def main():
    args = parse()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(576, 10)))
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=5e-4)
    data = Numbers()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, args.batch_size, sampler=sampler)
    began = time.time()
    for epoch in range(args.start_epoch, args.epochs):
        sampler.set_epoch(args.start_epoch)
        losses = []
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean)
        stop = torch.tensor(float(time.time() - began > args.max_time))
        dist.broadcast(stop, 0)
        if rank == 0:
            print(f"=> epoch {epoch}: loss {mean.item() / dist.get_world_size():.4f} lr {opt.param_groups[0]['lr']} time {time.time() - began:.0f}", flush=True)
        if stop:
            break


if __name__ == "__main__":
    main()
