import argparse
import os
import random
import socket
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.utils.data


class Scenes(torch.utils.data.Dataset):
    """Toy Cityscapes: stripes for the road, boxes for cars."""

    def __init__(self, n=1600, size=40):
        rng = np.random.default_rng(0)
        self.mask = np.zeros((n, size, size), np.int64)
        for m in self.mask:
            h = rng.integers(12, 24)
            m[h:] = 1
            for _ in range(3):
                r, c = rng.integers(h, size - 6), rng.integers(0, size - 8)
                m[r : r + 5, c : c + 7] = 2
        self.img = np.stack([self.mask == k for k in range(3)], 1).astype(np.float32) + 0.9 * rng.standard_normal((n, 3, size, size)).astype(np.float32)

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        flip = random.random() < 0.5
        x, y = self.img[i], self.mask[i]
        return (x[:, :, ::-1].copy(), y[:, ::-1].copy()) if flip else (x, y)


def worker(gpu, ngpus, args):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(args.port)
    dist.init_process_group("gloo", rank=gpu, world_size=ngpus)
    torch.manual_seed(args.seed + gpu)
    random.seed(args.seed + gpu)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 32, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=4, dilation=4), nn.ReLU(), nn.Conv2d(32, 3, 1))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    loader = torch.utils.data.DataLoader(Scenes(), batch_size=args.batch_size // ngpus, shuffle=True, num_workers=0, drop_last=True)
    start = time.time()
    for epoch in range(args.epochs):
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if gpu == 0 and i % 10 == 0:
                print(f"Epoch: [{epoch}][{i}]  Time {time.time() - start:.1f}  Loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=50, type=int)
    parser.add_argument("-b", "--batch-size", default=32, type=int, help="over all GPUs")
    parser.add_argument("--lr", default=0.01, type=float)
    parser.add_argument("--seed", default=17, type=int)
    args = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        args.port = s.getsockname()[1]
    mp.spawn(worker, nprocs=2, args=(2, args))


if __name__ == "__main__":
    main()
