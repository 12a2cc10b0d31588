# Where does the ant go next? Displacements from the trail so far, two processes on one box.
import os
import random
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

HP = dict(hidden=192, layers=4, heads=6, length=48, batch=24, lr=3e-4, steps=20000, print_every=10)


def trails(n, length, gen):
    """Correlated random walks that are drawn to a pheromone at the origin."""
    pos = torch.randn(n, 2, generator=gen) * 3
    angle = torch.rand(n, generator=gen) * 6.2832
    out = []
    for _ in range(length + 1):
        home = torch.atan2(-pos[:, 1], -pos[:, 0])
        angle = angle + 0.3 * torch.sin(home - angle) + 0.2 * torch.randn(n, generator=gen)
        pos = pos + 0.2 * torch.stack([angle.cos(), angle.sin()], 1)
        out.append(pos)
    return torch.stack(out, 1)


class TrailModel(nn.Module):
    def __init__(self):
        super().__init__()
        d = HP["hidden"]
        self.inp = nn.Linear(4, d)
        self.pos = nn.Parameter(torch.randn(HP["length"], d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, HP["heads"], 3 * d, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, HP["layers"], enable_nested_tensor=False)
        self.out = nn.Linear(d, 2)

    def forward(self, path):
        step = path[:, 1:] - path[:, :-1]
        x = torch.cat([path[:, :-1] / 3, torch.cat([torch.zeros_like(step[:, :1]), step[:, :-1]], 1) / 0.2], -1)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.body(self.inp(x) + self.pos, mask=mask, is_causal=True)
        return self.out(h), step / 0.2


class Monitor:
    """Numbers for the dashboard: spectrum of every weight, gradient quantiles."""

    def __init__(self, model):
        self.model = model
        self.rows = {}

    def update(self, step):
        for name, p in self.model.named_parameters():
            if p.ndim != 2:
                continue
            s = torch.linalg.svdvals(p.detach())
            g = p.grad.abs().flatten()
            rank = (s.sum() / s[0]).item()
            self.rows[name] = (step, s[0].item(), rank, g.quantile(0.5).item(), g.quantile(0.99).item())


def worker(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    random.seed(rank)
    gen = torch.Generator().manual_seed(100 + rank)
    model = DDP(TrailModel())
    opt = torch.optim.AdamW(model.parameters(), lr=HP["lr"])
    monitor = Monitor(model.module) if rank == 0 else None
    t = time.time()
    for step in range(1, HP["steps"] + 1):
        pred, target = model(trails(HP["batch"], HP["length"], gen))
        loss = nn.functional.mse_loss(pred, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if monitor is not None:
            monitor.update(step)
        if rank == 0 and step % HP["print_every"] == 0:
            print("step", step, "loss", round(loss.item(), 4), "sec/step", round((time.time() - t) / HP["print_every"], 3), flush=True)
            t = time.time()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    print(HP, flush=True)
    mp.spawn(worker, args=(2, free_port()), nprocs=2)
