"""Segments of songs, embedded with a triplet loss. Two processes through mp.spawn. Checkpoints are atomic: tmp, then rename."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def save(state, path):
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)  # never leave half a file behind


def run(rank, world, port, folder):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    torch.manual_seed(0)
    songs = torch.randn(300, 1, 256)
    net = nn.Sequential(
        nn.Conv1d(1, 32, 7, padding=3), nn.ReLU(), nn.Conv1d(32, 64, 7, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 128, 256)
    )
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.Adam(net.parameters(), 5e-4)
    loss_fn = nn.TripletMarginLoss(margin=1.0)
    torch.manual_seed(rank)
    for step in range(1, 10**6):
        i = torch.randint(0, 300, (24,))
        j = (i + torch.randint(1, 300, (24,))) % 300
        noisy = lambda k: songs[k] + 3.0 * torch.randn(24, 1, 256)
        z = net(torch.cat([noisy(i), noisy(i), noisy(j)]))
        loss = loss_fn(*z.chunk(3))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} triplet {loss.item():.4f}", flush=True)
        if step % 100 == 0:
            save({"step": step, "model": net.module.state_dict(), "opt": opt.state_dict()}, os.path.join(folder, "last.pt"))
            if rank == 0:
                print(f"saved {folder}/last.pt", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="songs-") as folder:
        mp.spawn(run, args=(2, os.environ.get("PORT", "29655"), folder), nprocs=2)
