"""Moths of the light traps.  torchrun --nproc-per-node=2 moth_traps.py"""
import time

import torch
import torch.distributed as dist
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Config(dict):
    __getattr__ = dict.__getitem__

    @classmethod
    def load(cls, path):
        with open(path) as f:
            cfg = yaml.safe_load(f)
        cfg["data"]["batch"] = cfg["data"]["global_batch"] // cfg["world_size"]  # of one card
        return cls({k: cls(v) if isinstance(v, dict) else v for k, v in cfg.items()})


class Traps(Dataset):
    def __init__(self, species, side, n=4096):
        g = torch.Generator().manual_seed(5)
        self.y = torch.randint(0, species, (n,), generator=g)
        self.kinds = torch.randn(species, 3, side, side, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.kinds[self.y[i]] + 2.5 * torch.randn_like(self.kinds[0]), self.y[i]


def build_loader(cfg, world):
    data = Traps(cfg.data.species, cfg.data.side)
    sampler = DistributedSampler(data, shuffle=True)
    return DataLoader(data, batch_size=max(1, cfg.data.batch // world), sampler=sampler, drop_last=True), sampler


def main():
    cfg = Config.load("moth_traps.yaml")
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    d = 3 * cfg.data.side**2
    model = nn.Sequential(nn.Flatten(), nn.Linear(d, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, cfg.data.species))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.optim.lr, momentum=cfg.optim.momentum)
    loader, sampler = build_loader(cfg, world)
    if rank == 0:
        print(f"{cfg.experiment}: {loader.batch_size} images per card and step, {len(loader)} steps per epoch", flush=True)
    start, step, epoch, average = time.time(), 0, 0, None
    stop = torch.zeros(1)
    while not stop:
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
            step += 1
            if step % cfg.run.log_every == 0:
                stop.fill_(time.time() - start > cfg.run.seconds)
                dist.broadcast(stop, 0)
                if rank == 0:
                    print(f"[{epoch:03d}] step={step:06d} loss={average:.3f} images/s={step * world * loader.batch_size / (time.time() - start):.1f}", flush=True)
                if stop:
                    break
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
