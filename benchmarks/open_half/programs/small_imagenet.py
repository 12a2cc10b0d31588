"""After the ImageNet example: one process, one node of several, or ranks that are started by hand."""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("data", metavar="DIR", nargs="?", default="imagenet")
parser.add_argument("-a", "--arch", default="resnet18")
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("-b", "--batch-size", default=64, type=int)
parser.add_argument("-p", "--print-freq", default=10, type=int)
parser.add_argument("--world-size", default=-1, type=int, help="number of nodes for distributed training")
parser.add_argument("--rank", default=-1, type=int, help="node rank for distributed training")
parser.add_argument("--dist-url", default="tcp://224.66.41.62:23456", type=str)
parser.add_argument("--dist-backend", default="gloo", type=str)
parser.add_argument("--gpus-per-node", default=2, type=int)
parser.add_argument("--multiprocessing-distributed", action="store_true")
parser.add_argument("--pause", default=0.0, type=float, help="seconds before this rank joins")


def main():
    args = parser.parse_args()
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    ngpus_per_node = args.gpus_per_node
    if args.multiprocessing_distributed:
        args.world_size = ngpus_per_node * args.world_size
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        main_worker(0, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    print(f"Use GPU: {gpu} for training", flush=True)
    time.sleep(args.pause)
    if args.distributed:
        if args.multiprocessing_distributed:
            args.rank = args.rank * ngpus_per_node + gpu
        dist.init_process_group(args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
    print(f"=> creating model '{args.arch}'", flush=True)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    model(torch.randn(2, 3, 32, 32))
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    torch.manual_seed(max(0, args.rank))
    images, target = torch.randn(2048, 3, 32, 32), torch.randint(0, 10, (2048,))
    for epoch in range(args.epochs):
        order = torch.randperm(len(images))
        batches = len(images) // args.batch_size
        for i in range(batches):
            end = time.time()
            rows = order[i * args.batch_size : (i + 1) * args.batch_size]
            loss = criterion(model(images[rows]), target[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % args.print_freq == 0:
                spent = time.time() - end
                print(f"Epoch: [{epoch}][{i}/{batches}]\tTime {spent:6.3f}\tLoss {loss.item():.4e}", flush=True)


if __name__ == "__main__":
    main()
