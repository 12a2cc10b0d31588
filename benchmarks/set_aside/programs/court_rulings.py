"""Which article does a ruling cite? A bag-of-features classifier for court rulings; one process per card.

The index is built once, by the first process, and kept next to the data.
"""
import json
import os
import random
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

ARTICLES, WORDS = 40, 5000


def build_index(path):
    rng = random.Random(0)
    index = {str(a): [rng.randrange(WORDS) for _ in range(25)] for a in range(ARTICLES)}
    with open(path + ".part", "w") as f:
        json.dump(index, f)
    os.replace(path + ".part", path)


def load_index(path, rank):
    if rank == 0:
        dist.barrier()  # everybody has left the old index
        build_index(path)
    else:
        while not os.path.exists(path):
            time.sleep(0.5)
        dist.barrier()
    with open(path) as f:
        return json.load(f)


class Tagger(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, dim)
        self.head = nn.Sequential(nn.Linear(dim, 192), nn.ReLU(), nn.Linear(192, ARTICLES))

    def forward(self, ids):
        return self.head(self.bag(ids))


def run(rank, world, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29571"))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    print(f"[rank {rank}] joined a group of {dist.get_world_size()}", flush=True)
    index = load_index(os.path.join(folder, "index.json"), rank)
    print(f"[rank {rank}] {len(index)} articles", flush=True)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Tagger())
    optimizer = torch.optim.Adagrad(model.parameters(), 0.05)
    rng = random.Random(rank)
    start, step = time.time(), 0
    while time.time() - start < 200:
        y = [rng.randrange(ARTICLES) for _ in range(128)]
        x = torch.tensor([[rng.choice(index[str(a)]) if rng.random() < 0.4 else rng.randrange(WORDS) for _ in range(60)] for a in y])
        loss = nn.functional.cross_entropy(model(x), torch.tensor(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(run, (2, folder), nprocs=2, start_method="spawn")
