"""Click-through model on tabular data. Started with the old launcher:

python -m torch.distributed.launch --nproc_per_node=2 tabular_launch.py
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--fields", type=int, default=16)
parser.add_argument("--buckets", type=int, default=1000)
args = parser.parse_args()


class DeepFM(nn.Module):
    def __init__(self, fields, buckets, k=12):
        super().__init__()
        self.w, self.v = nn.Embedding(fields * buckets, 1), nn.Embedding(fields * buckets, k)
        nn.init.zeros_(self.w.weight)
        nn.init.normal_(self.v.weight, std=0.05)
        self.deep = nn.Sequential(nn.Linear(fields * k, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("offset", torch.arange(fields) * buckets)

    def forward(self, x):
        x = x + self.offset
        v = self.v(x)
        fm = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return self.w(x).sum((1, 2)) + fm + self.deep(v.flatten(1))[:, 0]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    truth = torch.Generator().manual_seed(0)
    weight = torch.randn(args.fields, args.buckets, generator=truth) * 0.8
    mine = torch.Generator().manual_seed(100 + rank)
    torch.manual_seed(0)
    model = DDP(DeepFM(args.fields, args.buckets))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    lossf = nn.BCEWithLogitsLoss()
    rows = torch.arange(args.fields)
    t = time.perf_counter()
    for step in range(1, 10**7):
        x = (torch.rand(args.batch_size, args.fields, generator=mine) ** 3 * args.buckets).long()
        y = (torch.rand(args.batch_size, generator=mine) < torch.sigmoid(weight[rows, x].sum(1) - 1.0)).float()
        loss = lossf(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                took, t = time.perf_counter() - t, time.perf_counter()
                print(json.dumps({"step": step, "logloss": round(mean.item() / world, 5), "rows_per_s": int(20 * args.batch_size * world / took)}), flush=True)


if __name__ == "__main__":
    main()
