"""Point-wise labels for street lidar (PointNet), multi-processing as in the ImageNet example."""

import argparse
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CLASSES = ("road", "building", "car", "tree")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Streets(Dataset):
    """Each item is one sweep of 512 points with a label per point."""

    def __init__(self, n=1500, points=512):
        self.n, self.points = n, points

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = torch.randint(0, 4, (self.points,), generator=g)
        xyz = torch.randn(self.points, 3, generator=g) * torch.tensor([8.0, 8.0, 0.4])
        xyz[:, 2] += torch.tensor([0.0, 6.0, 1.0, 3.0])[label]
        xyz[:, 0] += torch.tensor([0.0, 9.0, 2.0, 5.0])[label]
        return xyz.T / 10, label


class PointNetSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU())
        self.glob = nn.Sequential(nn.Conv1d(64, 256, 1), nn.BatchNorm1d(256), nn.ReLU())
        self.head = nn.Sequential(nn.Conv1d(320, 128, 1), nn.BatchNorm1d(128), nn.ReLU(), nn.Conv1d(128, len(CLASSES), 1))

    def forward(self, x):
        a = self.local(x)
        b = self.glob(a).amax(2, keepdim=True).expand(-1, -1, x.shape[2])
        return self.head(torch.cat([a, b], 1))


def main_worker(gpu, ngpus_per_node, args):
    args.gpu = gpu
    args.rank = args.node_rank * ngpus_per_node + gpu
    print(f"Use GPU: {args.gpu} for training", flush=True)
    dist.init_process_group(args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
    torch.manual_seed(args.rank)
    model = DistributedDataParallel(PointNetSeg())
    data = Streets()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for i, (points, label) in enumerate(loader):
            loss = criterion(model(points), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 10 == 0 and args.rank == 0:
                print(f"Epoch: [{epoch}][{i}/{len(loader)}]\tLoss {loss.item():.4e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", default=2, type=int, help="number of nodes for distributed training")
    parser.add_argument("--node-rank", default=0, type=int)
    parser.add_argument("--dist-url", default=None)
    parser.add_argument("--dist-backend", default="nccl" if torch.cuda.is_available() else "gloo")
    parser.add_argument("--batch-size", default=16, type=int)
    parser.add_argument("--epochs", default=60, type=int)
    parser.add_argument("--lr", default=1e-3, type=float)
    args = parser.parse_args()
    args.dist_url = args.dist_url or f"tcp://127.0.0.1:{free_port()}"
    ngpus_per_node = torch.cuda.device_count() or 2
    args.world_size = ngpus_per_node * args.nodes
    mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))


if __name__ == "__main__":
    main()
