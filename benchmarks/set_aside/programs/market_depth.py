"""Mid-price moves from the order book (DeepLOB without the inception block)."""
import argparse
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Config:
    window: int = 60
    levels: int = 10
    batch: int = 48
    lr: float = 7e-4
    seconds: float = 210.0


class Book(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 24, (1, 2), (1, 2)), nn.LeakyReLU(), nn.Conv2d(24, 24, (4, 1)), nn.LeakyReLU(),
                                  nn.Conv2d(24, 24, (1, 2), (1, 2)), nn.LeakyReLU(), nn.Conv2d(24, 24, (4, 1)), nn.LeakyReLU(), nn.Conv2d(24, 24, (1, c.levels)), nn.LeakyReLU())
        self.lstm = nn.LSTM(24, 64, batch_first=True)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        h = self.conv(x.unsqueeze(1)).squeeze(-1).transpose(1, 2)
        return self.head(self.lstm(h)[0][:, -1])


def books(c, g):
    flow = torch.randn(c.batch, c.window, 1, generator=g).cumsum(1) / 8
    shape = torch.linspace(1, 0.2, c.levels * 4).view(1, 1, -1)
    x = flow * shape + 0.3 * torch.randn(c.batch, c.window, c.levels * 4, generator=g)
    drift = flow[:, -10:, 0].mean(1) - flow[:, -30:-10, 0].mean(1)
    return x, torch.bucketize(drift, torch.tensor([-0.15, 0.15]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=int, default=60)
    c = Config(window=parser.parse_args().window)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(Book(c))
    opt = torch.optim.Adam(net.parameters(), c.lr)
    g = torch.Generator().manual_seed(100 + rank)
    began, seen, it = time.time(), 0, 0
    while True:
        x, y = books(c, g)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += c.batch * 2
        if it % 10 == 0:
            stop = torch.tensor([float(time.time() - began > c.seconds)])
            dist.all_reduce(stop)
            if rank == 0:
                print(f"{it:6d}  loss {loss.item():.4f}  {seen / (time.time() - began):7.1f} windows/s", flush=True)
            if stop:
                break
        it += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
