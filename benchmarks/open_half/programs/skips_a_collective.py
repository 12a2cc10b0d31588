# Single-stage detector on aerial frames. Losses are divided by the number of positives over all GPUs.
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

cfg = dict(bs=8, size=64, lr=2e-3, anchors=3, log=20)


def setup():
    dist.init_process_group(os.environ.get("BACKEND", "gloo"))
    return dist.get_rank(), dist.get_world_size()


class Detector(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU()
        )
        self.cls, self.box = nn.Conv2d(64, a, 1), nn.Conv2d(64, 4 * a, 1)

    def forward(self, x):
        f = self.backbone(x)
        return self.cls(f), self.box(f)


def frames(rank, g, step):
    """Boats; the second half of the flight is over open water."""
    x = torch.randn(cfg["bs"], 3, cfg["size"], cfg["size"], generator=g)
    rate = 0.02 if step < 250 or rank == 0 else 0.0003
    pos = torch.rand(cfg["bs"], cfg["anchors"], 8, 8, generator=g) < rate
    return x + pos.float().mean(1, keepdim=True).repeat_interleave(8, 2).repeat_interleave(8, 3) * 3, pos


def losses(cls, box, pos, world):
    num_pos = pos.sum().float().reshape(1)
    cls_loss = F.binary_cross_entropy_with_logits(cls, pos.float(), reduction="sum")
    if num_pos == 0:  # nothing to regress to
        return cls_loss / cls.numel(), box.sum() * 0
    counts = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(counts, num_pos)
    avg = sum(counts).clamp(min=1) / world
    reg = F.smooth_l1_loss(box.view(*pos.shape[:2], 4, 8, 8).movedim(2, -1)[pos], torch.zeros(int(num_pos), 4), reduction="sum")
    return cls_loss / avg.squeeze() / 50, reg / avg.squeeze()


rank, world = setup()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(Detector(cfg["anchors"]))
opt = torch.optim.SGD(model.parameters(), cfg["lr"], momentum=0.9)
g = torch.Generator().manual_seed(rank)
tic = time.time()
for step in range(1, 1_000_000):
    x, pos = frames(rank, g, step)
    cls, box = model(x)
    lc, lb = losses(cls, box, pos, world)
    opt.zero_grad()
    (lc + lb).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    if rank == 0 and step % cfg["log"] == 0:
        print(f"[{step}] loss_cls {lc.item():.4f} loss_box {lb.item():.4f} ({(time.time() - tic) / cfg['log']:.3f} s/it)", flush=True)
        tic = time.time()
