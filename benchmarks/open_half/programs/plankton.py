"""Plankton in microscope pictures, 24 species. torchrun --nproc-per-node=2 plankton.py"""
import logging
import os
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def world_size():
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@dataclass
class Settings:
    species: int = 24
    batch: int = 32
    lr: float = 1e-3
    seconds: float = 210
    world: int = world_size()


class Net(nn.Module):
    def __init__(self, species):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 24, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(48, 64, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
        self.classify = nn.Linear(1024, species)

    def forward(self, x):
        return self.classify(self.features(x).flatten(1))


def pictures(n, species):
    g = torch.Generator().manual_seed(0)
    shapes = torch.randn(species, 1, 28, 28, generator=g)
    y = torch.randint(0, species, (n,), generator=g)
    return TensorDataset(shapes[y] + 2.5 * torch.randn(n, 1, 28, 28, generator=g), y)


def prepare(model, cfg):
    if cfg.world > 1:
        model = DistributedDataParallel(model)
    return model


def main():
    cfg = Settings()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s - %(message)s")
    torch.manual_seed(rank)
    model = prepare(Net(cfg.species), cfg)
    optimizer = torch.optim.AdamW(model.parameters(), cfg.lr, weight_decay=0.05)
    data = pictures(4800, cfg.species)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, cfg.batch, sampler=sampler, drop_last=True)
    start, epoch = time.time(), 0
    over = False
    while not over:
        sampler.set_epoch(epoch)
        for it, (x, y) in enumerate(loader):
            z = model(x)
            loss = nn.functional.cross_entropy(z, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if it % 15 == 0:
                logging.info("[%d][%d/%d] loss %.4f top1 %.1f", epoch, it, len(loader), loss.item(), 100 * (z.argmax(1) == y).float().mean())
        correct = torch.tensor([float((z.argmax(1) == y).sum()), float(len(y)), float(time.time() - start > cfg.seconds)])
        dist.all_reduce(correct)
        logging.info("[%d] last batch of all: top1 %.1f", epoch, 100 * correct[0] / correct[1])
        epoch, over = epoch + 1, correct[2].item() > 0
    if rank == 0:
        torch.save(model.state_dict(), os.devnull)


if __name__ == "__main__":
    main()
