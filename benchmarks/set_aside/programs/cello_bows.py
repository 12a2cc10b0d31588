"""Cello recordings: which bow, which string, how loud. The three tasks take turns, so two heads rest in each step.

    torchrun --standalone --nproc-per-node=2 cello_bows.py
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

TASKS = ("bow", "string", "loudness")


class Cello(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv1d(1, 32, 16, 4), nn.GELU(), nn.Conv1d(32, 64, 8, 4), nn.GELU(), nn.Conv1d(64, 64, 4, 2), nn.GELU(), nn.AdaptiveAvgPool1d(8), nn.Flatten()
        )
        self.heads = nn.ModuleDict({"bow": nn.Linear(512, 6), "string": nn.Linear(512, 4), "loudness": nn.Linear(512, 1)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


def notes(task, n, g):
    t = torch.arange(2000) / 2000
    string = torch.randint(0, 4, (n,), generator=g)
    bow = torch.randint(0, 6, (n,), generator=g)
    loud = torch.rand(n, generator=g) + 0.3
    f = 65 * 1.5 ** string[:, None].float()
    x = sum(torch.sin(6.283 * f * h * t) / h ** (1 + 0.2 * bow[:, None]) for h in (1, 2, 3))
    x = (loud[:, None] * (x + 0.5 * torch.randn(n, 2000, generator=g)))[:, None]
    return x, {"bow": bow, "string": string, "loudness": loud}[task]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DDP(Cello(), find_unused_parameters=True)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    last, start = dict.fromkeys(TASKS, 0.0), time.time()
    step = 0
    while True:
        task = TASKS[step % 3]
        x, y = notes(task, 16, g)
        out = net(x, task)
        loss = nn.functional.mse_loss(out[:, 0], y) if task == "loudness" else nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        last[task] = 0.9 * (last[task] or loss.item()) + 0.1 * loss.item()
        step += 1
        if rank == 0 and step % 30 == 0:
            print(f"{step:5d} " + " ".join(f"{k}={v:.3f}" for k, v in last.items()) + f" {time.time() - start:.0f}s", flush=True)


main()
