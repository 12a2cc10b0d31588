"""Yarn faults without labels: two views of a thread should look alike (NT-Xent over the batches of both processes)."""
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x)
        return torch.cat(out)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        n = len(grad) // dist.get_world_size()
        return grad[dist.get_rank() * n : (dist.get_rank() + 1) * n]


def view(thread):
    n, length = thread.shape
    start = int(torch.randint(0, length - 400, (1,)))
    return (thread[:, start : start + 400] * (0.8 + 0.4 * torch.rand(n, 1)) + 0.3 * torch.randn(n, 400))[:, None]


def nt_xent(a, b, tau=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = (z @ z.T / tau).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
    n = len(a)
    return F.cross_entropy(sim, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


def worker(rank, world):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29544"))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 32, 9, 2), nn.ReLU(), nn.Conv1d(32, 64, 9, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(6), nn.Flatten(), nn.Linear(384, 64))
    net = DDP(net)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    torch.manual_seed(1 + rank)
    start = time.time()
    for step in range(1, 200001):
        freq = torch.rand(24, 3, 1) * 0.5
        thread = torch.sin(freq * torch.arange(500)).sum(1)
        z = net(torch.cat([view(thread), view(thread)]))
        a, b = z.chunk(2)
        loss = nt_xent(Gather.apply(a.contiguous()), Gather.apply(b.contiguous()))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 25 == 0:
            print(f"step {step:6d}  nt-xent {loss.item():.4f}  {time.time() - start:.0f}s", flush=True)


if __name__ == "__main__":
    mp.spawn(worker, (2,), nprocs=2)
