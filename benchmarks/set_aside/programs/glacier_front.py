"""Glacier fronts in SAR images. Two cards; the archive is on the first process's disk, and the other asks it for batches.

torchrun --nproc-per-node=2 glacier_front.py
"""
import os
import pickle
import random
import socket
import struct
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

RANK, PORT = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"]) + 7
BATCH, SIDE = 16, 48


def local_batch(rng):
    front = torch.tensor([[SIDE // 3 + rng.random() * SIDE / 3] for _ in range(BATCH)])
    ice = (torch.arange(SIDE) < front).float()
    images = ice.view(BATCH, 1, 1, SIDE).expand(-1, 1, SIDE, -1) + 0.8 * torch.randn(BATCH, 1, SIDE, SIDE)
    return images, front / SIDE


class Archive(threading.Thread):
    """Serves batches, as pickles, over the line of the institute (8 Mbit/s are ours)."""

    def __init__(self, rate=1_000_000):
        super().__init__(daemon=True)
        self.rate, self.server = rate, socket.create_server(("127.0.0.1", PORT))

    def run(self):
        rng = random.Random(1)
        conn, _ = self.server.accept()
        while conn.recv(1):
            data = pickle.dumps(local_batch(rng))
            conn.sendall(struct.pack("!I", len(data)))
            for i in range(0, len(data), 16384):
                conn.sendall(data[i : i + 16384])
                time.sleep(16384 / self.rate)


class Remote:
    def __init__(self):
        for _ in range(100):
            try:
                self.conn = socket.create_connection(("127.0.0.1", PORT))
                break
            except ConnectionRefusedError:
                time.sleep(0.2)
        self.file = self.conn.makefile("rb")

    def batch(self):
        self.conn.sendall(b"?")
        (size,) = struct.unpack("!I", self.file.read(4))
        return pickle.loads(self.file.read(size))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    if RANK == 0:
        Archive().start()
        rng = random.Random(0)
        fetch = lambda: local_batch(rng)  # noqa: E731
    else:
        fetch = Remote().batch
    net = nn.Sequential(nn.Conv2d(1, 24, 5, 2, 2), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 12)), nn.Flatten(), nn.Linear(576, 1))
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    t0, step = time.time(), 0
    while True:
        x, y = fetch()
        loss = nn.functional.l1_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 20 == 0:
            end = torch.tensor(int(time.time() - t0 > 210))
            dist.broadcast(end, 0)
            if RANK == 0:
                sys.stderr.write(f"\r{step:6d} steps, MAE {loss.item():.4f}, {step / (time.time() - t0):.2f} steps/s\n")
            if end:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
