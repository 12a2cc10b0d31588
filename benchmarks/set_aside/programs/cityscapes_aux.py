"""Semantic segmentation with an auxiliary head (as in PSPNet), distributed.

    torchrun --standalone --nproc-per-node=2 cityscapes_aux.py
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CLASSES = 6


class StreetScenes(Dataset):
    def __init__(self, n, size=(64, 128), seed=0):
        g = torch.Generator().manual_seed(seed)
        h, w = size
        self.masks = torch.zeros(n, h, w, dtype=torch.long)
        for i in range(n):
            horizon = int(torch.randint(20, 40, (1,), generator=g))
            self.masks[i, horizon:] = 1
            for c in range(2, CLASSES):
                y, x = int(torch.randint(5, h - 20, (1,), generator=g)), int(torch.randint(0, w - 25, (1,), generator=g))
                self.masks[i, y:y + 15, x:x + 20] = c
        palette = torch.rand(CLASSES, 3, generator=g)
        self.images = palette[self.masks].permute(0, 3, 1, 2) + 0.2 * torch.randn(n, 3, h, w, generator=g)

    def __len__(self):
        return len(self.masks)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


def cbr(i, o, s=1, d=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, d, dilation=d, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class PSPLite(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(cbr(3, 24, 2), cbr(24, 32))
        self.layer2 = nn.Sequential(cbr(32, 48, 2), cbr(48, 48))
        self.layer3 = nn.Sequential(cbr(48, 64, 1, 2), cbr(64, 64, 1, 4))
        self.head = nn.Sequential(cbr(64 * 2, 64), nn.Conv2d(64, CLASSES, 1))
        self.aux_head = nn.Sequential(cbr(48, 32), nn.Conv2d(32, CLASSES, 1))

    def forward(self, x):
        size = x.shape[-2:]
        x = self.layer2(self.layer1(x))
        aux = self.aux_head(x)
        x = self.layer3(x)
        pooled = F.interpolate(F.adaptive_avg_pool2d(x, 4), x.shape[-2:], mode="bilinear")
        out = self.head(torch.cat([x, pooled], 1))
        return F.interpolate(out, size, mode="bilinear"), F.interpolate(aux, size, mode="bilinear")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--aux-weight", type=float, default=0.4)
    ap.add_argument("--aux-epochs", type=int, default=3, help="drop the auxiliary loss after so many epochs")
    args = ap.parse_args()

    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local}" if use_cuda else "cpu")
    torch.manual_seed(100 + rank)

    data = StreetScenes(480)
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    net = DistributedDataParallel(PSPLite().to(device), device_ids=[local] if use_cuda else None)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    if rank == 0:
        print(f"{len(data)} scenes, {dist.get_world_size()} ranks, {len(loader)} iterations per epoch", flush=True)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        t0 = time.time()
        for it, (img, mask) in enumerate(loader):
            img, mask = img.to(device), mask.to(device)
            out, aux = net(img)
            loss = F.cross_entropy(out, mask)
            if epoch < args.aux_epochs:
                loss = loss + args.aux_weight * F.cross_entropy(aux, mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and it % 5 == 0:
                acc = (out.argmax(1) == mask).float().mean()
                print(f"epoch {epoch} it {it}/{len(loader)} loss {loss.item():.4f} pixacc {acc.item():.3f}", flush=True)
        if rank == 0:
            print(f"epoch {epoch} done in {time.time() - t0:.1f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
