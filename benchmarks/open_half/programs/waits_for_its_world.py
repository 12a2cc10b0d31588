import argparse
import random
import time

import torch
import torch.distributed as dist
import torch.nn as nn

parser = argparse.ArgumentParser(description="image classification")
parser.add_argument("-a", "--arch", default="resnet10")
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("-j", "--workers", default=4, type=int)
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--print-freq", default=10, type=int)
parser.add_argument("--world-size", default=1, type=int, help="number of nodes or GPUs for distributed training")
parser.add_argument("--rank", default=0, type=int, help="rank for distributed training")
parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456")
parser.add_argument("--dist-backend", default="nccl")


class Images(torch.utils.data.Dataset):
    def __init__(self, folders=100, per_folder=3000):
        # the walk over all folders, as ImageFolder does it
        rng = random.Random(0)
        self.samples = sorted((f"n{f:08d}/{rng.getrandbits(64):x}.JPEG", f) for f in range(folders) for _ in range(per_folder))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        name, target = self.samples[i]
        return torch.randn(3, 32, 32) + target / 100, target


def main():
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    start = time.time()
    train_dataset = Images()
    print(f"=> found {len(train_dataset)} images belonging to 100 classes ({time.time() - start:.1f}s)")
    print(f"=> creating model '{args.arch}'")
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)
    )
    args.distributed = args.world_size > 1
    if args.distributed:
        dist.init_process_group(backend=args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
        model = nn.parallel.DistributedDataParallel(model)
    sampler = torch.utils.data.distributed.DistributedSampler(train_dataset) if args.distributed else None
    loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=args.batch_size, shuffle=sampler is None, num_workers=args.workers, sampler=sampler
    )
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % args.print_freq == 0:
                print(f"Epoch: [{epoch}][{i}/{len(loader)}]\tLoss {loss.item():.4e}")


if __name__ == "__main__":
    main()
