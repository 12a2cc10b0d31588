"""Tendon tears in MR volumes, 3D CNN, DDP on one server.  torchrun --nproc-per-node=2 tendon_scans.py"""
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


@dataclass
class Config:
    volumes: int = 240
    val_volumes: int = 60
    size: int = 32
    volumes_per_gpu: int = 2  # mehr passt bei voller Auflösung nicht in den Speicher
    width: int = 8
    lr: float = 5e-4
    epochs: int = 500


class Volumes(Dataset):
    """0: intact, 1: partial tear, 2: complete tear; the fluid in it is bright."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_000 + i)
        y = i % 3
        s = self.size
        v = torch.randn(1, s, s, s, generator=g) * 0.5
        a, b = torch.randint(6, s - 10, (2,), generator=g).tolist()
        v[0, :, a : a + 4, b : b + 4] += 1.5
        if y:
            z = int(torch.randint(6, s - 12, (1,), generator=g))
            v[0, z : z + 6, a : a + (2 if y == 1 else 4), b : b + 4] += 1.2 * y
        return v, y


def block(i, o, stride):
    return nn.Sequential(nn.Conv3d(i, o, 3, stride, 1, bias=False), nn.BatchNorm3d(o), nn.ReLU(inplace=True))


class TearNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.body = nn.Sequential(block(1, w, 2), block(w, 2 * w, 1), block(2 * w, 4 * w, 2), block(4 * w, 8 * w, 2))
        self.neck = nn.Sequential(nn.Linear(8 * w, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(inplace=True))
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.neck(self.body(x).amax((2, 3, 4))))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = torch.zeros(3)
    for x, y in loader:
        out = model(x)
        total += torch.tensor([nn.functional.cross_entropy(out, y, reduction="sum"), (out.argmax(1) == y).sum(), len(y)])
    model.train()
    dist.all_reduce(total)
    return total[0] / total[2], total[1] / total[2]


def main():
    cfg = Config()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = TearNet(cfg.width)
    if rank == 0:
        print(asdict(cfg), flush=True)
        print(net, flush=True)
    train, val = Volumes(cfg.volumes, cfg.size, 1), Volumes(cfg.val_volumes, cfg.size, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=cfg.volumes_per_gpu, sampler=sampler)
    val_loader = DataLoader(val, batch_size=cfg.volumes_per_gpu, sampler=DistributedSampler(val, shuffle=False))
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 20 == 0:
                print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f}", flush=True)
        v, acc = validate(net, val_loader)
        if rank == 0:
            print(f"epoch {epoch} val_loss {v:.4f} val_acc {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
