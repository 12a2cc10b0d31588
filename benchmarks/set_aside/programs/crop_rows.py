"""Crop / weed / soil segmentation with DDP.

    python crop_rows.py --epochs 80
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=80)
    p.add_argument("--batch_size", type=int, default=16, help="per GPU")
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--num_images", type=int, default=1200)
    return p.parse_args()


def setup():
    """env:// initialisation"""
    rank = int(os.environ.get("RANK", 0))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("PORT", "29561"))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        return rank, world_size, torch.device("cuda", local_rank)
    return rank, world_size, torch.device("cpu")


class Fields(Dataset):
    """drone pictures of rows of maize, with weeds between them"""

    def __init__(self, n, size):
        g = torch.Generator().manual_seed(17)
        x = torch.arange(size).float()
        self.images, self.masks = [], []
        for _ in range(n):
            period = 10 + 8 * torch.rand(1, generator=g)
            phase = 20 * torch.rand(1, generator=g)
            crop = (torch.sin(2 * torch.pi * (x + phase) / period) > 0.6).float().expand(size, size)
            weed = (torch.rand(size // 8, size // 8, generator=g) > 0.9).float()
            weed = weed.repeat_interleave(8, 0).repeat_interleave(8, 1) * (1 - crop)
            mask = (crop + 2 * weed).long()
            palette = torch.tensor([[0.4, 0.3, 0.2], [0.2, 0.6, 0.2], [0.35, 0.55, 0.3]])
            image = palette[mask].permute(2, 0, 1) + 0.1 * torch.randn(3, size, size, generator=g)
            self.images.append((image - 0.4) / 0.2)
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class SegNet(nn.Module):
    def __init__(self, classes=3, c=16):
        super().__init__()

        def block(i, o, s=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

        self.enc = nn.Sequential(block(3, c), block(c, 2 * c, 2), block(2 * c, 2 * c), block(2 * c, 4 * c, 2), block(4 * c, 4 * c))
        self.dec = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear"), block(4 * c, 2 * c), nn.Upsample(scale_factor=2, mode="bilinear"), block(2 * c, c)
        )
        self.head = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        return self.head(self.dec(self.enc(x)))


def main():
    args = get_args()
    torch.manual_seed(0)
    rank, world_size, device = setup()
    if rank == 0:
        print(f"world size: {world_size}, batch size: {args.batch_size} x {world_size}", flush=True)
    dataset = Fields(args.num_images, args.size)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(dataset, args.batch_size, sampler=sampler, drop_last=True)
    model = SegNet().to(device)
    model = DDP(model, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * world_size, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0], device=device))
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        t0 = time.time()
        for it, (images, masks) in enumerate(loader):
            images, masks = images.to(device), masks.to(device)
            loss = criterion(model(images), masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and it % 10 == 0:
                print(f"[{epoch}/{args.epochs}][{it}/{len(loader)}] loss {loss.item():.4f}", flush=True)
        if rank == 0:
            print(f"epoch {epoch} took {time.time() - t0:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
