"""Scansion: the meter of a line of verse, read syllable by syllable. Two processes."""
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.utils.rnn import pad_sequence

METERS, BATCH = ["iamb", "trochee", "dactyl", "anapest", "amphibrach"], 16
FEET = [[0, 1], [1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]


def corpus(n=4000):
    g = torch.Generator().manual_seed(12)
    lines = []
    for _ in range(n):
        meter = int(torch.randint(0, 5, (1,), generator=g))
        length = int(8 + 120 * torch.rand(1, generator=g) ** 3)
        foot = FEET[meter]
        stress = torch.tensor([foot[i % len(foot)] for i in range(length)]).float()
        lines.append((torch.stack([stress + 0.5 * torch.randn(length, generator=g), torch.randn(length, generator=g)], 1), meter))
    lines.sort(key=lambda line: len(line[0]))  # little padding in a batch
    return lines


class Scanner(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 96, num_layers=2, batch_first=True)
        self.out = nn.Linear(96, 5)

    def forward(self, x, lengths):
        h, _ = self.rnn(x)
        return self.out(h[torch.arange(len(x)), lengths - 1])


def main(rank, world, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    lines = corpus()
    part = len(lines) // world
    lines = lines[rank * part : (rank + 1) * part]
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Scanner())
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    for epoch in range(1000):
        for step, k in enumerate(torch.randperm(part // BATCH, generator=g).tolist()):
            batch = lines[k * BATCH : (k + 1) * BATCH]
            x = pad_sequence([b[0] for b in batch], batch_first=True)
            loss = nn.functional.cross_entropy(net(x, torch.tensor([len(b[0]) for b in batch])), torch.tensor([b[1] for b in batch]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 25 == 0 and rank == 0:
                print(f"{epoch:3d}/{step:3d}  {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    port = int(os.environ.get("PORT", 0))
    if not port:
        with socket.socket() as s:
            s.bind(("", 0))
            port = s.getsockname()[1]
    mp.spawn(main, (2, port), nprocs=2)
