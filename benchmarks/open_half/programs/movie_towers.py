"""Two towers for films, hand-made data parallelism. `python movie_towers.py --processes 2 --emb 64`"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

PEOPLE, FILMS = 50_000, 20_000


class Towers(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.people, self.films = nn.Embedding(PEOPLE, d), nn.Embedding(FILMS, d)
        nn.init.normal_(self.people.weight, std=0.1)
        nn.init.normal_(self.films.weight, std=0.1)
        self.up, self.down = nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, d)), nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, d))

    def forward(self, p, f):
        return F.normalize(self.up(self.people(p)), dim=1) @ F.normalize(self.down(self.films(f)), dim=1).T * 10


def synchronise(model, world):
    flat = torch.cat([w.grad.reshape(-1) for w in model.parameters()])
    dist.all_reduce(flat)
    flat /= world
    at = 0
    for w in model.parameters():
        w.grad = flat[at : at + w.numel()].view_as(w)
        at += w.numel()


def main(rank, a):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", os.environ.get("PORT", "29555")
    dist.init_process_group("gloo", rank=rank, world_size=a.processes)
    torch.manual_seed(5)
    net = Towers(a.emb)
    opt = torch.optim.SGD(net.parameters(), lr=a.lr)
    g = torch.Generator().manual_seed(50 + rank)
    begin, n = time.time(), 0
    while True:
        p = (PEOPLE * torch.rand(a.batch, generator=g) ** 6).long()
        f = p // 1000 * 400 + (400 * torch.rand(a.batch, generator=g) ** 3).long()
        loss = F.cross_entropy(net(p, f), torch.arange(a.batch))
        net.zero_grad()
        loss.backward()
        synchronise(net, a.processes)
        opt.step()
        n += 1
        if n % 10 == 0:
            over = torch.tensor(int(time.time() - begin > a.seconds))
            dist.broadcast(over, 0)
            if rank == 0:
                print("%5d  InfoNCE %.4f  %.1e pairs/s" % (n, loss.item(), n * a.batch * a.processes / (time.time() - begin)), flush=True)
            if over:
                return


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--processes", type=int, default=2)
    ap.add_argument("--emb", type=int, default=64)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=5.0)
    ap.add_argument("--seconds", type=float, default=210)
    a = ap.parse_args()
    mp.spawn(main, (a,), nprocs=a.processes)
