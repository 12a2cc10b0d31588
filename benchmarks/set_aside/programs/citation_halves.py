"""Node classification with GraphSAGE on a citation graph that is split over two processes.

    torchrun --nproc-per-node 2 citation_halves.py --hops 2

Papers are numbered by the number of times they are cited, and each process is responsible for a contiguous range of them.
"""
import argparse
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Graph:
    def __init__(self, papers, subjects, features, seed=0):
        rng = np.random.default_rng(seed)
        degree = np.clip(4000 / (1 + np.arange(papers)) ** 0.7, 4, 400).astype(int)
        self.y = rng.integers(0, subjects, papers)
        by_subject = [np.flatnonzero(self.y == s) for s in range(subjects)]
        self.neighbours = []
        for p in range(papers):
            near = rng.choice(by_subject[self.y[p]], degree[p] // 3 + 1)
            self.neighbours.append(np.concatenate([near, rng.integers(0, papers, degree[p] * 2 // 3 + 1)]))
        self.x = torch.from_numpy((rng.standard_normal((subjects, features))[self.y] * 0.1 + rng.standard_normal((papers, features))).astype(np.float32))


class Sage(nn.Module):
    def __init__(self, features, width, subjects):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width))
        self.own, self.out = nn.Linear(features, width), nn.Linear(width, subjects)

    def forward(self, x, source, target, seeds):
        sent = self.message(x[source])
        total = torch.zeros(len(seeds), sent.shape[1]).index_add_(0, target, sent)
        mean = total / torch.bincount(target, minlength=len(seeds)).clamp(min=1).unsqueeze(1)
        return self.out(F.relu(self.own(x[seeds]) + mean))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--papers", type=int, default=2400)
    p.add_argument("--hops", type=int, default=1)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--time", type=float, default=210)
    a = p.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    graph = Graph(a.papers, 16, 64)
    mine = np.array_split(np.arange(a.papers), world)[rank]
    print(f"partition {rank}: papers {mine[0]}..{mine[-1]}", flush=True)
    model = nn.parallel.DistributedDataParallel(Sage(64, 128, 16))
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    rng, y = np.random.default_rng(rank), torch.from_numpy(graph.y)
    start, step = time.time(), 0
    while True:
        seeds = rng.choice(mine, a.batch, replace=False)
        source = torch.from_numpy(np.concatenate([graph.neighbours[s] for s in seeds]))
        target = torch.from_numpy(np.repeat(np.arange(len(seeds)), [len(graph.neighbours[s]) for s in seeds]))
        seeds = torch.from_numpy(seeds)
        logits = model(graph.x, source, target, seeds)
        loss = F.cross_entropy(logits, y[seeds])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 25 == 0:
            numbers = torch.tensor([loss.item(), (logits.argmax(1) == y[seeds]).float().mean().item(), float(time.time() - start > a.time)])
            dist.all_reduce(numbers)
            if rank == 0:
                print(f"{step=} loss={numbers[0] / world:.4f} acc={numbers[1] / world:.3f} {step / (time.time() - start):.1f} it/s", flush=True)
            if numbers[2] > 0:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
