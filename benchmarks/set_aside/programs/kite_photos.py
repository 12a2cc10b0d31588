"""Fine-grained classification of kites. Adapted from the reference classification script.

    torchrun --nproc_per_node=2 kite_photos.py --batch-size 32
"""
import argparse
import datetime
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def get_args():
    p = argparse.ArgumentParser("kites")
    p.add_argument("--batch-size", default=64, type=int, help="images per GPU")
    p.add_argument("--epochs", default=120, type=int)
    p.add_argument("--lr", default=0.05, type=float)
    p.add_argument("--momentum", default=0.9, type=float)
    p.add_argument("--wd", default=1e-4, type=float)
    p.add_argument("--print-freq", default=15, type=int)
    p.add_argument("--dist-url", default="env://")
    return p.parse_args()


def init_distributed_mode(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank = int(os.environ["RANK"])
        args.world_size = int(os.environ["WORLD_SIZE"])
        args.gpu = int(os.environ["LOCAL_RANK"])
    else:
        print("Not using distributed mode")
        args.distributed = False
        args.rank, args.world_size, args.gpu = 0, 1, 0
        return
    args.distributed = True
    if torch.cuda.is_available():
        torch.cuda.set_device(args.gpu)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    print(f"| distributed init (rank {args.rank}): {args.dist_url}", flush=True)
    dist.init_process_group(backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
    dist.barrier()


def make_kites(n, generator, size=32):
    """Diamonds, deltas, boxes ... in many colors, in front of a sky."""
    labels = torch.randint(0, 12, (n,), generator=generator)
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    images = torch.empty(n, 3, size, size)
    for i, k in enumerate(labels.tolist()):
        dx, dy = (torch.rand(2, generator=generator) - 0.5).tolist()
        s = 0.45 + 0.25 * torch.rand(1, generator=generator).item()
        u, v = (x - dx) / s, (y - dy) / s
        p, stripes = 0.6 + 0.5 * (k % 4), k // 4
        mask = (u.abs() ** p + v.abs() ** p < 1).float()
        pattern = 0.5 + 0.5 * torch.sin((u if stripes == 0 else v if stripes == 1 else u + v) * 9)
        color = torch.rand(3, 1, 1, generator=generator)
        sky = torch.tensor([0.4, 0.6, 0.9]).view(3, 1, 1) + 0.05 * torch.randn(3, size, size, generator=generator)
        images[i] = sky * (1 - mask) + color * pattern * mask
    return TensorDataset((images - 0.5) / 0.3, labels)


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = nn.Identity()
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + self.down(x))


def resnet10(num_classes):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        BasicBlock(16, 32, 2), BasicBlock(32, 64, 2), BasicBlock(64, 128, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, num_classes),
    )


def train_one_epoch(model, criterion, optimizer, loader, device, epoch, args):
    model.train()
    end = time.time()
    for i, (image, target) in enumerate(loader):
        image, target = image.to(device, non_blocking=True), target.to(device, non_blocking=True)
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0 and args.rank == 0:
            acc1 = (output.argmax(1) == target).float().mean().item() * 100
            print(
                f"Epoch: [{epoch}]  [{i}/{len(loader)}]  lr: {optimizer.param_groups[0]['lr']:.4f}  "
                f"img/s: {len(image) / (time.time() - end):.1f}  loss: {loss.item():.4f}  acc1: {acc1:.2f}"
            )
        end = time.time()


@torch.no_grad()
def evaluate(model, criterion, loader, device, args):
    model.eval()
    stats = torch.zeros(3, device=device)
    for image, target in loader:
        image, target = image.to(device), target.to(device)
        output = model(image)
        stats += torch.stack([criterion(output, target) * len(target), (output.argmax(1) == target).sum(), torch.tensor(len(target))])
    if args.distributed:
        dist.all_reduce(stats)
    if args.rank == 0:
        print(f"Test:  loss: {stats[0] / stats[2]:.4f}  Acc@1 {100 * stats[1] / stats[2]:.3f}")


def main():
    args = get_args()
    init_distributed_mode(args)
    print(args)
    torch.manual_seed(0)
    device = torch.device("cuda", args.gpu) if torch.cuda.is_available() else torch.device("cpu")
    g = torch.Generator().manual_seed(5)
    train_set, test_set = make_kites(4800, g), make_kites(960, g)
    if args.distributed:
        train_sampler = DistributedSampler(train_set)
        test_sampler = DistributedSampler(test_set, shuffle=False)
    else:
        train_sampler, test_sampler = RandomSampler(train_set), None
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=args.batch_size, sampler=test_sampler)

    model = resnet10(12).to(device)
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[args.gpu] if device.type == "cuda" else None)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=args.wd)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 0.5 * (1 + math.cos(math.pi * e / args.epochs)))
    print("Start training")
    start = time.time()
    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        train_one_epoch(model, criterion, optimizer, train_loader, device, epoch, args)
        scheduler.step()
        evaluate(model, criterion, test_loader, device, args)
    print("Training time", datetime.timedelta(seconds=int(time.time() - start)))


if __name__ == "__main__":
    main()
