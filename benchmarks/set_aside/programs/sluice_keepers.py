"""Sluice logs, word by word: a large batch on two small cards, so eight micro-batches make one update.

    torchrun --nproc_per_node=2 sluice_keepers.py
"""
import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCAB, LENGTH, MICRO, ACCUM = 120, 40, 8, 8


class Logs(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        table = torch.randint(0, VOCAB, (VOCAB, 3), generator=g)
        self.rows = torch.zeros(n, LENGTH + 1, dtype=torch.long)
        self.rows[:, 0] = torch.randint(0, VOCAB, (n,), generator=g)
        for t in range(LENGTH):
            self.rows[:, t + 1] = table[self.rows[:, t], torch.randint(0, 3, (n,), generator=g)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i, :-1], self.rows[i, 1:]


class LM(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(VOCAB, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, VOCAB)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = Logs(MICRO * ACCUM * world * 25)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, MICRO, sampler=sampler)
    net = DDP(LM())
    opt = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=0.01)
    start, update = time.time(), 0
    for epoch in range(200):
        sampler.set_epoch(epoch)
        total = 0.0
        for i, (x, y) in enumerate(loader, 1):
            last = i % ACCUM == 0
            with contextlib.nullcontext() if last else net.no_sync():
                loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
                (loss / ACCUM).backward()
            total += loss.item() / ACCUM
            if last:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
                update += 1
                if rank == 0 and update % 5 == 0:
                    print(f"epoch {epoch} update {update}: nll {total:.4f} ({time.time() - start:.0f} s)", flush=True)
                total = 0.0


main()
