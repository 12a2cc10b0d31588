"""Land cover from 32x32 satellite tiles (4 bands, 10 classes). Launched by sources_an_env_file.sh."""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(4, o), nn.ReLU(True), nn.MaxPool2d(2))


def tiles(n, gen):
    y = torch.randint(0, 10, (n,), generator=gen)
    x = torch.randn(n, 4, 32, 32, generator=gen)
    x += 0.12 * y[:, None, None, None] * torch.tensor([1.0, -0.5, 0.3, 0.9])[None, :, None, None]
    return TensorDataset(x, y)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=90)
    ap.add_argument("--batch-size", type=int, default=48)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(1)
    net = nn.Sequential(block(4, 32), block(32, 64), block(64, 96), nn.Flatten(), nn.Linear(96 * 16, 10)).to(device)
    net = DistributedDataParallel(net)
    train = tiles(6000, torch.Generator().manual_seed(0))
    sampler = DistributedSampler(train, shuffle=True)
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    if rank == 0:
        print(f"world size {world}, {len(train)} tiles, {len(loader)} iterations per epoch", flush=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        start, seen = time.time(), 0
        for it, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            seen += len(x) * world
            if rank == 0 and it % 20 == 0:
                print(f"epoch {epoch:3d} [{it:3d}/{len(loader)}] loss {loss.item():.4f} {seen / (time.time() - start):.0f} tiles/s", flush=True)
    dist.destroy_process_group()
