"""Self-supervised embeddings of land cover (SimSiam without the bells), which are written out as they are made.

torchrun --nproc-per-node=2 satellite_embeddings.py. The features of each step go to features.bin, for the map in the GUI.
"""
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import nn

WHERE = os.path.join(tempfile.gettempdir(), f"landcover-{os.environ.get('MASTER_PORT', '0')}")


class Encoder(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(5, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, d))
        self.predict = nn.Sequential(nn.Linear(d, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, a, b):
        za, zb = self.body(a), self.body(b)
        return za, -0.5 * (F.cosine_similarity(self.predict(za), zb.detach()).mean() + F.cosine_similarity(self.predict(zb), za.detach()).mean())


def patches(n, g):
    kind = torch.randint(0, 7, (n,), generator=g)
    base = torch.randn(7, 5, 8, 8, generator=torch.Generator().manual_seed(2))[kind]
    return F.interpolate(base, size=(32, 32))


def view(x, g):
    return x + 0.7 * torch.randn(x.shape, generator=g) if torch.rand((), generator=g) < 0.5 else (x + 0.7 * torch.randn(x.shape, generator=g)).flip(-1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    os.makedirs(WHERE, exist_ok=True)
    out = open(os.path.join(WHERE, "features.bin"), "wb", buffering=1 << 16)
    model = nn.parallel.DistributedDataParallel(Encoder())
    opt = torch.optim.SGD(model.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
    g = torch.Generator().manual_seed(rank)
    console, start, step = Console(width=88), time.time(), 0
    while True:
        x = patches(48, g)
        z, loss = model(view(x, g), view(x, g))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if out.tell() > 8 << 20:
            out.seek(0)
        out.write(z.detach().numpy().tobytes())
        step += 1
        if step % 25 == 0:
            stats = torch.tensor([loss.item(), F.normalize(z.detach(), dim=1).std(0).mean().item(), float(time.time() - start > 210)])
            dist.all_reduce(stats)
            if rank == 0:
                table = Table("step", "similarity loss", "std", "patches/s", "features.bin")
                table.add_row(str(step), f"{stats[0] / world:.4f}", f"{stats[1] / world:.4f}", f"{48 * world * step / (time.time() - start):,.0f}", f"{out.tell() / 2**20:.1f} MiB")
                console.print(table)
            if stats[2] > 0:
                break
    out.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
