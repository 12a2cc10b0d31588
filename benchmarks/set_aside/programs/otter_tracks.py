"""Which animal left the track?  (camera trap crops, 6 species)

usage: python otter_tracks.py --epochs 40 --batch-size 32
"""
import argparse
import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SPECIES = ["otter", "mink", "badger", "fox", "beaver", "heron"]


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--local_rank", "--local-rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    return p.parse_args()


def make_tracks(n):
    g = torch.Generator().manual_seed(3)
    pads = torch.randn(len(SPECIES), 1, 12, 12, generator=g)
    y = torch.randint(0, len(SPECIES), (n,), generator=g)
    x = 1.5 * torch.randn(n, 1, 48, 48, generator=g)
    for i in range(n):
        a, b = torch.randint(0, 36, (2,), generator=g).tolist()
        x[i, :, a : a + 12, b : b + 12] += pads[y[i]]
    return TensorDataset(x, y)


class TrackNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 5, padding=2)
        self.c2 = nn.Conv2d(16, 32, 5, padding=2, stride=2)
        self.c3 = nn.Conv2d(32, 32, 3, padding=1)
        self.fc = nn.Linear(32, len(SPECIES))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.relu(self.c3(F.relu(self.c2(x))))
        return self.fc(x.amax((2, 3)))


if __name__ == "__main__":
    args = get_args()
    device = torch.device(f"cuda:{args.local_rank}" if torch.cuda.is_available() else "cpu")
    random.seed(0)
    train = DataLoader(make_tracks(6400), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = TrackNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print(f"{len(train)} batches per epoch, {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    for epoch in range(1, args.epochs + 1):
        since, right, seen = time.time(), 0, 0
        for step, (images, target) in enumerate(train, 1):
            images, target = images.to(device), target.to(device)
            out = model(images)
            loss = F.cross_entropy(out, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (out.argmax(1) == target).sum().item()
            seen += len(target)
            if step % 40 == 0:
                print(f"Epoch {epoch}/{args.epochs} [{step}/{len(train)}] loss {loss.item():.4f} acc {right / seen:.3f}", flush=True)
        print(f"Epoch {epoch} took {time.time() - since:.1f}s", flush=True)
