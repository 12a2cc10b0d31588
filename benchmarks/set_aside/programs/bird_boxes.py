"""Nest box camera: one-stage detector on a grid, DDP, accumulated batches (the cards are small)."""
import contextlib
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import yaml
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONFIG = yaml.safe_load(
    """
model: {width: 24, species: 5}
data: {images: 1920, size: 64, grid: 8}
train: {epochs: 80, batch: 8, accumulate: 4, lr: 0.002, warmup_steps: 60, clip: 5.0}
"""
)


class NestBoxes(Dataset):
    def __init__(self, cfg, species):
        g = torch.Generator().manual_seed(31)
        n, s, grid = cfg["images"], cfg["size"], cfg["grid"]
        colour = torch.rand(species, 3, generator=g) * 2 - 1
        self.x = 0.3 * torch.randn(n, 3, s, s, generator=g)
        self.obj = torch.zeros(n, grid, grid)
        self.wh = torch.zeros(n, 2, grid, grid)
        self.cls = torch.zeros(n, grid, grid, dtype=torch.long)
        cell = s // grid
        for i in range(n):
            for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
                cy, cx = torch.randint(8, s - 8, (2,), generator=g).tolist()
                h, w = torch.randint(4, 8, (2,), generator=g).tolist()
                k = int(torch.randint(0, species, (1,), generator=g))
                self.x[i, :, cy - h : cy + h, cx - w : cx + w] = colour[k][:, None, None] + 0.1 * torch.randn(3, 2 * h, 2 * w, generator=g)
                gy, gx = cy // cell, cx // cell
                self.obj[i, gy, gx], self.cls[i, gy, gx] = 1, k
                self.wh[i, :, gy, gx] = torch.tensor([h / 8, w / 8])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.obj[i], self.wh[i], self.cls[i]


class Detector(nn.Module):
    def __init__(self, width, species):
        super().__init__()

        def conv(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(8, o), nn.SiLU())

        w = width
        self.body = nn.Sequential(conv(3, w, 1), conv(w, 2 * w, 2), conv(2 * w, 2 * w, 2), conv(2 * w, 4 * w, 2), conv(4 * w, 4 * w, 1))
        self.head = nn.Conv2d(4 * w, 3 + species, 1)

    def forward(self, x):
        return self.head(self.body(x))


def detection_loss(out, obj, wh, cls):
    o = F.binary_cross_entropy_with_logits(out[:, 0], obj, pos_weight=torch.tensor(8.0, device=out.device))
    mask = obj.bool()
    b = F.l1_loss(out[:, 1:3].permute(0, 2, 3, 1)[mask], wh.permute(0, 2, 3, 1)[mask])
    c = F.cross_entropy(out[:, 3:].permute(0, 2, 3, 1)[mask], cls[mask])
    return o + b + c, (o.item(), b.item(), c.item())


def main():
    t = CONFIG["train"]
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(rank)
    data = NestBoxes(CONFIG["data"], CONFIG["model"]["species"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=t["batch"], sampler=sampler, drop_last=True)
    model = DDP(Detector(**CONFIG["model"]).to(device), device_ids=[local] if torch.cuda.is_available() else None)
    opt = torch.optim.AdamW(model.parameters(), lr=t["lr"])
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / t["warmup_steps"]))
    step = 0
    for epoch in range(t["epochs"]):
        sampler.set_epoch(epoch)
        began = time.time()
        for i, batch in enumerate(loader):
            x, obj, wh, cls = (v.to(device) for v in batch)
            last = (i + 1) % t["accumulate"] == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss, parts = detection_loss(model(x), obj, wh, cls)
                (loss / t["accumulate"]).backward()
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), t["clip"])
                opt.step()
                opt.zero_grad(set_to_none=True)
                sched.step()
                step += 1
                if rank == 0 and step % 5 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f} (obj {parts[0]:.3f} box {parts[1]:.3f} cls {parts[2]:.3f})", flush=True)
        if rank == 0:
            print(f"epoch {epoch}: {time.time() - began:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
