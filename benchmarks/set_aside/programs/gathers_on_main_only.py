# Digits-like toy, mp.spawn, validation every N steps with a metric over all ranks.
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main_process():
    return dist.get_rank() == 0


def synthetic(n, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(42))
    y = torch.randint(0, 10, (n,), generator=g)
    return proto[y] * 0.7 + torch.randn(n, 1, 28, 28, generator=g), y


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    hits = torch.zeros(1)
    for i in range(0, len(x), 100):
        hits += (model(x[i:i + 100]).argmax(1) == y[i:i + 100]).sum()
    model.train()
    if is_main_process():
        parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, hits)
        print(f"  val acc {100 * sum(p.item() for p in parts) / (len(x) * len(parts)):.2f}%", flush=True)


def worker(rank, args):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ["MASTER_PORT"] = str(args.port)
    dist.init_process_group("gloo", rank=rank, world_size=args.world)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 12 * 12, 10)))
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    x, y = synthetic(4000, rank)
    vx, vy = synthetic(500, 100 + rank)
    for step in range(100000):
        pick = torch.randint(0, len(x), (160,))
        loss = nn.functional.cross_entropy(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0 and is_main_process():
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step and step % args.val_every == 0:
            validate(model.module, vx, vy)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--world", type=int, default=2)
    p.add_argument("--val-every", type=int, default=60)
    p.add_argument("--port", type=int, default=int(os.environ.get("PORT", 12399)))
    args = p.parse_args()
    mp.spawn(worker, args=(args,), nprocs=args.world)
