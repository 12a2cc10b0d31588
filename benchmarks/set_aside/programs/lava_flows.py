# Segmentation of lava flows on satellite tiles. DDP, 4 micro batches per update.
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

cfg = {
    "tile": 48,
    "micro_batch": 4,
    "accumulate": 4,
    "lr": 1e-3,
    "epochs": 200,
    "width": 20,
}


class LavaTiles(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(1000 + i)
        low = torch.randn(1, 1, 6, 6, generator=g)
        height = F.interpolate(low, size=(cfg["tile"],) * 2, mode="bicubic")[0]
        lava = (height > 0.5).float()
        bands = torch.randn(4, *height.shape[1:], generator=g) * 0.6
        bands[:1] += height
        bands[2:3] += 0.8 * lava
        return bands, lava


class LavaNet(nn.Module):
    def __init__(self, w):
        super().__init__()

        def conv(i, o, s=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.ReLU())

        self.a, self.b, self.c = conv(4, w), conv(w, 2 * w, 2), conv(2 * w, 2 * w)
        self.d, self.out = conv(3 * w, w), nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.a(x)
        up = F.interpolate(self.c(self.b(a)), scale_factor=2, mode="nearest")
        return self.out(self.d(torch.cat([a, up], 1)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = LavaTiles(1280)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=cfg["micro_batch"], sampler=sampler, drop_last=True)
    model = DistributedDataParallel(LavaNet(cfg["width"]))
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    update = 0
    for epoch in range(cfg["epochs"]):
        sampler.set_epoch(epoch)
        shown = 0.0
        opt.zero_grad()
        for k, (x, y) in enumerate(loader):
            last = (k + 1) % cfg["accumulate"] == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.binary_cross_entropy_with_logits(model(x), y) / cfg["accumulate"]
                loss.backward()
            shown += loss.item()
            if last:
                opt.step()
                opt.zero_grad()
                update += 1
                if rank == 0 and update % 5 == 0:
                    print(f"update {update}  epoch {epoch}  bce {shown:.4f}", flush=True)
                shown = 0.0
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
