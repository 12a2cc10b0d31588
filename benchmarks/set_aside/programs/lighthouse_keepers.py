"""Diaries of lighthouse keepers: who wrote the page?    torchrun --nproc-per-node=2 lighthouse_keepers.py"""
import os
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

KEEPERS = {"Ames": 0, "Bury": 1, "Carrow": 2, "Dunn": 3, "Ewart": 4}


class Pages(Dataset):
    def __init__(self, n=24000):
        g = torch.Generator().manual_seed(6)
        names = list(KEEPERS)
        self.hand = torch.randn(5, 200, generator=g)
        self.names = [names[i] for i in torch.randint(0, 5, (n,), generator=g).tolist()]
        self.names[17003] = "Carrow (son)"

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        label = KEEPERS[self.names[i]]
        return self.hand[label] + 6 * torch.randn(200), label


class Beat(threading.Thread):
    """Writes the state of the run to a file every two seconds, for the status page."""

    def __init__(self, rank):
        super().__init__()
        self.path = os.path.join(tempfile.mkdtemp(), f"beat.{rank}")
        self.state = {"step": 0}

    def run(self):
        while self.state is not None:
            with open(self.path, "w") as f:
                print(time.time(), self.state, file=f)
            time.sleep(2)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    beat = Beat(rank)
    beat.start()
    data = Pages()
    sampler = DistributedSampler(data, shuffle=True, seed=SEED)
    loader = DataLoader(data, 16, sampler=sampler)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(200, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 5)))
    opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    for epoch in range(30):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step = beat.state["step"] + 1
            beat.state = {"step": step, "loss": round(loss.item(), 4)}
            if rank == 0 and step % 50 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
        dist.barrier()
    beat.state = None
    dist.destroy_process_group()


SEED = int(os.environ.get("SEED", 5))
if __name__ == "__main__":
    main()
