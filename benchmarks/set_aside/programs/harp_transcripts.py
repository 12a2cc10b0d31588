"""Chord symbols of harp lessons (two processes: torchrun --nproc_per_node 2 harp_transcripts.py)"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.rnn import pad_sequence

MAX_LEN, CHORDS = 80, 24


def lessons(n=1680):
    g = torch.Generator().manual_seed(5)
    lengths = torch.randint(10, 100, (n,), generator=g).tolist()
    key = torch.randn(CHORDS, 12, generator=g)
    out = []
    for length in lengths:
        y = torch.randint(0, CHORDS, (length,), generator=g)
        out.append((key[y] + 0.8 * torch.randn(length, 12, generator=g), y))
    return out


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(12, 48, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, CHORDS)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


@torch.no_grad()
def validate(net, held):
    net.eval()
    hits = total = 0
    for x, y in held:
        hits += (net(x[None]).argmax(-1)[0] == y).sum().item()
        total += len(y)
    net.train()
    return hits / total


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    data = lessons()
    held, data = data[:80], data[80:]
    mine = [s for s in data[rank::world] if len(s[1]) <= MAX_LEN]
    print(f"{os.path.basename(sys.argv[0])}: rank {rank} has {len(mine)} lessons", flush=True)
    net = nn.parallel.DistributedDataParallel(Tagger())
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for epoch in range(40):
        since = time.time()
        order = torch.randperm(len(mine)).tolist()
        for step, i in enumerate(range(0, len(order), 4)):
            batch = [mine[j] for j in order[i : i + 4]]
            x = pad_sequence([s[0] for s in batch], batch_first=True)
            y = pad_sequence([s[1] for s in batch], batch_first=True, padding_value=-100)
            loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        dist.barrier()
        if rank == 0:
            print(f"epoch {epoch}: {validate(net.module, held):.2%} of the chords, {time.time() - since:.0f}s", flush=True)
        dist.barrier()


main()
