# tiny ViT on drawn shapes, DDP, one process per device started here (no torchrun on this cluster)
import dataclasses
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
from tqdm import tqdm


@dataclasses.dataclass
class Config:
    size: int = 32
    patch: int = 4
    dim: int = 96
    depth: int = 3
    heads: int = 4
    classes: int = 4
    batch: int = 32
    lr: float = 5e-4
    epochs: int = 1000
    n_train: int = 6000
    seed: int = 3


class Shapes(Dataset):
    """Discs, squares, crosses and rings, drawn once."""

    def __init__(self, cfg):
        g = torch.Generator().manual_seed(cfg.seed)
        self.y = torch.randint(0, cfg.classes, (cfg.n_train,), generator=g)
        cx, cy = torch.randint(9, 23, (2, cfg.n_train, 1, 1), generator=g)
        r = torch.randint(4, 9, (cfg.n_train, 1, 1), generator=g)
        v, u = torch.meshgrid(torch.arange(cfg.size), torch.arange(cfg.size), indexing="ij")
        d2, dx, dy = (u - cx) ** 2 + (v - cy) ** 2, (u - cx).abs(), (v - cy).abs()
        kinds = [d2 <= r * r, (dx <= r) & (dy <= r), ((dx < 2) & (dy <= r)) | ((dy < 2) & (dx <= r)), (d2 <= r * r) & (d2 > (r - 3) ** 2)]
        x = torch.stack([k.float() for k in kinds], 1)[torch.arange(cfg.n_train), self.y]
        self.x = (x + 0.6 * torch.randn(x.shape, generator=g))[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ViT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Conv2d(1, c.dim, c.patch, c.patch)
        self.pos = nn.Parameter(torch.randn(1, (c.size // c.patch) ** 2 + 1, c.dim) * 0.02)
        self.cls = nn.Parameter(torch.zeros(1, 1, c.dim))
        layer = nn.TransformerEncoderLayer(c.dim, c.heads, 2 * c.dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, c.depth, enable_nested_tensor=False)
        self.head = nn.Linear(c.dim, c.classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.body(x)[:, 0])


def run(rank, world, cfg, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    model = DistributedDataParallel(ViT(cfg))
    opt = torch.optim.AdamW(model.parameters(), cfg.lr, weight_decay=0.05)
    data = Shapes(cfg)
    sampler = DistributedSampler(data, shuffle=True, seed=cfg.seed)
    loader = DataLoader(data, cfg.batch, sampler=sampler, drop_last=True)
    for epoch in range(cfg.epochs):
        sampler.set_epoch(epoch)
        bar = tqdm(loader, desc=f"epoch {epoch}", disable=rank != 0, mininterval=1.0)
        for x, y in bar:
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if rank == 0 and bar.n % 10 == 0:
                bar.set_postfix(loss=f"{loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    cfg, world = Config(), 2
    port = int(os.environ.get("PORT", 29871))
    ctx = mp.get_context("spawn")
    procs = []
    for r in range(world):
        os.environ["LOCAL_RANK"] = str(r)
        p = ctx.Process(target=run, args=(r, world, cfg, port))
        p.start()
        procs.append(p)
    for p in procs:
        p.join()
    sys.exit(any(p.exitcode for p in procs))
