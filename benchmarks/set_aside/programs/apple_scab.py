# Apple leaves: healthy / scab / rust / multiple diseases.   torchrun --nproc_per_node=2 apple_scab.py
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

EPOCHS = 40
BATCH = 32
LR = 1e-3


class Leaves(Dataset):
    def __init__(self, n, seed, size=48):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:size, 0:size]
        self.img = np.zeros((n, 3, size, size), np.float32)
        self.lab = rng.integers(0, 4, n)
        for i, k in enumerate(self.lab):
            leaf = ((xx - 24) / 16) ** 2 + ((yy - 24) / 21) ** 2 < 1
            im = np.stack([0.25 * leaf, 0.55 * leaf, 0.2 * leaf]).astype(np.float32)
            for _ in range(rng.integers(2, 6)):
                cx, cy = rng.uniform(14, 34, 2)
                spot = (xx - cx) ** 2 + (yy - cy) ** 2 < rng.uniform(3, 12)
                if k in (1, 3):
                    im[:, spot] *= 0.45  # scab is dark
                if k in (2, 3):
                    cx, cy = rng.uniform(14, 34, 2)
                    im[0, (xx - cx) ** 2 + (yy - cy) ** 2 < 6] = 0.8  # rust is orange
            self.img[i] = im + rng.normal(0, 0.12, im.shape)

    def __len__(self):
        return len(self.lab)

    def __getitem__(self, i):
        x = torch.from_numpy(self.img[i])
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        if torch.rand(()) < 0.5:
            x = x.flip(-2)
        return x, int(self.lab[i])


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.SiLU())


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(rank)
    if rank == 0:
        print(f"training on {world} processes, global batch {world * BATCH}")

    train_ds, val_ds = Leaves(2400, 0), Leaves(400, 1)
    train_dl = DataLoader(train_ds, batch_size=BATCH, shuffle=True, drop_last=True)
    val_dl = DataLoader(val_ds, batch_size=100)

    net = nn.Sequential(conv(3, 24), conv(24, 48, 2), conv(48, 64), conv(64, 96, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 4))
    net = DDP(net.to(device), device_ids=[local_rank] if torch.cuda.is_available() else None)
    opt = torch.optim.AdamW(net.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, LR * 3, total_steps=EPOCHS * len(train_dl))
    crit = nn.CrossEntropyLoss()

    for epoch in range(EPOCHS):
        net.train()
        t0, total = time.time(), torch.zeros(2, device=device)
        for i, (x, y) in enumerate(train_dl):
            x, y = x.to(device), y.to(device)
            loss = crit(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += torch.tensor([loss.item(), 1.0], device=device)
            if rank == 0 and i % 15 == 0:
                print(f"epoch {epoch:2d} {i:3d}/{len(train_dl)} loss {total[0] / total[1]:.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        dist.all_reduce(total)
        net.eval()
        ok = torch.zeros(1, device=device)
        with torch.no_grad():
            for j, (x, y) in enumerate(val_dl):
                if j % world == rank:
                    ok += (net.module(x.to(device)).argmax(1).cpu() == y).sum()
        dist.all_reduce(ok)
        if rank == 0:
            print(f"epoch {epoch:2d} train {total[0] / total[1]:.4f} val acc {ok.item() / len(val_ds):.3f} time {time.time() - t0:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
