"""Two-card radar nowcasting, mp.spawn (cluster forbids open ports, hence the file)."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def rendezvous():
    # one file per run, so that an old one is never read
    return f"file://{tempfile.gettempdir()}/nowcast-{os.getpid()}"


def worker(rank, world):
    print(f"rank {rank}/{world}: joining via {rendezvous()}", flush=True)
    dist.init_process_group("gloo", init_method=rendezvous(), rank=rank, world_size=world)
    torch.manual_seed(rank)
    net = DDP(nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1)))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(100000):
        x = torch.rand(8, 4, 48, 48)
        loss = (net(x) - x[:, -1:].roll(1, -1)).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} mae {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    mp.spawn(worker, (2,), nprocs=2)
