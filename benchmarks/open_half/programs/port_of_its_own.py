"""Siamese network for signatures, two processes.   python port_of_its_own.py --epochs 50"""
import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


def find_free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def setup(rank, world_size):
    # "Address already in use" when two of us trained on this machine, so take a free one
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(find_free_port())
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=world_size)


def main_worker(rank, args):
    print(f"=> worker {rank}/{args.world_size} starts", flush=True)
    setup(rank, args.world_size)
    torch.manual_seed(rank)
    dev = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 32)).to(dev)
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.Adam(net.parameters(), args.lr)
    writers = torch.randn(100, 256, generator=torch.Generator().manual_seed(0)).to(dev)
    for epoch in range(args.epochs):
        for _ in range(500):
            w = torch.randint(0, 100, (128,), device=dev)
            v = torch.where(torch.rand(128, device=dev) < 0.5, w, torch.randint(0, 100, (128,), device=dev))
            za = net(writers[w] + 0.5 * torch.randn(128, 256, device=dev))
            zb = net(writers[v] + 0.5 * torch.randn(128, 256, device=dev))
            dd = (za - zb).norm(dim=1)
            same = (w == v).float()
            loss = (same * dd**2 + (1 - same) * F.relu(1 - dd) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"epoch {epoch} contrastive {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--world_size", type=int, default=2)
    args = parser.parse_args()
    print(args, flush=True)
    mp.spawn(main_worker, args=(args,), nprocs=args.world_size)
