"""Small-footprint keyword spotting (BC-ResNet-like).  Override any setting: model.channels=32 trainer.lr=3e-4"""
import logging
import os
import sys
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist
import yaml
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

log = logging.getLogger("kws")


def load_config(path, overrides):
    cfg = yaml.safe_load(open(path))
    for item in overrides:
        key, value = item.split("=", 1)
        section, name = key.split(".")
        cfg[section][name] = yaml.safe_load(value)
    return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in cfg.items()})


class Block(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.f2 = nn.Sequential(nn.Conv2d(c, c, (3, 1), padding=(1, 0), groups=c), nn.BatchNorm2d(c))
        self.f1 = nn.Sequential(nn.Conv1d(c, c, 3, padding=dilation, dilation=dilation, groups=c), nn.BatchNorm1d(c), nn.SiLU(), nn.Conv1d(c, c, 1))

    def forward(self, x):
        h = self.f2(x)
        return torch.relu(x + h + self.f1(h.mean(2)).unsqueeze(2))


class BCNet(nn.Module):
    def __init__(self, c, words):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 5, (2, 1), 2)
        self.blocks = nn.Sequential(*[Block(c, 2**i) for i in range(4)])
        self.head = nn.Linear(c, words)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def utterances(n, d, seed):
    g = torch.Generator().manual_seed(seed)
    prototypes = torch.randn(d.words, d.mels, 8, generator=torch.Generator().manual_seed(1))
    y = torch.randint(0, d.words, (n,), generator=g)
    x = 0.9 * torch.randn(n, d.mels, d.frames, generator=g)
    at = torch.randint(0, d.frames - 8, (n,), generator=g)
    for i in range(n):
        x[i, :, at[i] : at[i] + 8] += prototypes[y[i]]
    return TensorDataset(x.unsqueeze(1), y)


def main():
    cfg = load_config("keyword_spotting.yaml", sys.argv[1:])
    ddp = "LOCAL_RANK" in os.environ
    rank, world = (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])) if ddp else (0, 1)
    if ddp:
        dist.init_process_group("gloo")
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")
    log.info("trainer: %s", vars(cfg.trainer))
    log.info("rank %d of %d, %d utterances per step", rank, world, cfg.trainer.batch_size * world)
    torch.manual_seed(cfg.defaults.seed)
    train = utterances(6400, cfg.data, seed=0)
    sampler = DistributedSampler(train) if ddp else None
    loader = DataLoader(train, cfg.trainer.batch_size, sampler=sampler, shuffle=sampler is None, drop_last=True)
    model = BCNet(cfg.model.channels, cfg.data.words)
    if ddp:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), cfg.trainer.lr)
    start, epoch, seen = time.time(), 0, 0
    while time.time() - start < 60 * cfg.trainer.max_minutes:
        if sampler is not None:
            sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            seen += len(x) * world
            if i % 20 == 19:
                acc = (logits.argmax(1) == y).float().mean()
                log.info("epoch %d batch %d/%d | train/loss %.4f | train/acc %.3f | %.0f utt/s", epoch, i + 1, len(loader), loss.item(), acc, seen / (time.time() - start))
        epoch += 1


if __name__ == "__main__":
    main()
