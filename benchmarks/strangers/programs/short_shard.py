import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset):
    """tar files of unequal size, one list per rank"""

    SIZES = {0: 120, 1: 90}

    def __init__(self, rank, batch):
        self.n = self.SIZES[rank] * batch

    def __iter__(self):
        for _ in range(self.n):
            time.sleep(0.0005)
            yield torch.randn(64), torch.randint(0, 10, ())


def evaluate(model, rank):
    acc = torch.rand(1)
    gathered = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, acc)
    return torch.cat(gathered).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    model = DDP(torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Shards(rank, args.batch), batch_size=args.batch)
    for epoch in range(50):
        for i, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 10 == 0:
                print(f"rank {rank} epoch {epoch} iter {i} loss {loss.item():.3f}", flush=True)
        acc = evaluate(model, rank)
        if rank == 0:
            print(f"epoch {epoch} acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
