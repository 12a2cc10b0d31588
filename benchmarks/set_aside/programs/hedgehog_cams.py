"""Hedgehog or not, from garden camera crops. Based on the torchvision classification reference.

    torchrun --nproc_per_node=NUM_GPUS hedgehog_cams.py --batch-size 32
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset


def init_distributed_mode(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank = int(os.environ["RANK"])
        args.world_size = int(os.environ["WORLD_SIZE"])
        args.gpu = int(os.environ["LOCAL_RANK"])
    else:
        print("Not using distributed mode")
        args.rank, args.world_size, args.gpu = 0, 1, 0
        args.distributed = False
        return
    args.distributed = True
    dist.init_process_group(args.dist_backend, init_method=args.dist_url)
    dist.barrier()


def load_data(args):
    g = torch.Generator().manual_seed(9)
    y = torch.randint(0, 2, (4096,), generator=g)
    shape = torch.randn(2, 3, 6, 6, generator=g)
    animal = F.interpolate(shape[y], size=(16, 16), mode="bicubic")
    x = torch.randn(4096, 3, 48, 48, generator=g)
    for i, (top, left) in enumerate(torch.randint(0, 32, (4096, 2), generator=g).tolist()):
        x[i, :, top : top + 16, left : left + 16] += 0.35 * animal[i]
    dataset = TensorDataset(x, y)
    sampler = DistributedSampler(dataset) if args.distributed else RandomSampler(dataset)
    return DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True), sampler


def build_model():
    def stage(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

    return nn.Sequential(stage(3, 24), stage(24, 48), stage(48, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 2))


def train_one_epoch(model, criterion, optimizer, loader, epoch, args):
    model.train()
    end = time.time()
    for i, (image, target) in enumerate(loader):
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0 and args.rank == 0:
            acc1 = (output.argmax(1) == target).float().mean().item() * 100
            ips = args.batch_size * args.world_size / (time.time() - end)
            print(f"Epoch: [{epoch}]  [{i:3d}/{len(loader)}]  loss: {loss.item():.4f}  acc1: {acc1:.2f}  img/s: {ips:.1f}")
        end = time.time()


def main(args):
    init_distributed_mode(args)
    print(args)
    torch.manual_seed(args.rank)
    loader, sampler = load_data(args)
    model = build_model()
    if args.distributed:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model) if torch.cuda.is_available() else model
        model = nn.parallel.DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        train_one_epoch(model, criterion, optimizer, loader, epoch, args)
        scheduler.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", default=32, type=int)
    parser.add_argument("--epochs", default=300, type=int)
    parser.add_argument("--lr", default=0.005, type=float)
    parser.add_argument("--print-freq", default=16, type=int)
    parser.add_argument("--dist-url", default="env://")
    parser.add_argument("--dist-backend", default="nccl" if torch.cuda.is_available() else "gloo")
    main(parser.parse_args())
