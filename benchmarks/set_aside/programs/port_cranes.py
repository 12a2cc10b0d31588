"""Cycle times of the cranes at the quay: forecast the next 12 from the last 96, in two processes."""
import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ACCUM = 4


class Cycles(Dataset):
    def __init__(self, cranes=16, length=1200, past=96, future=12):
        g = torch.Generator().manual_seed(0)
        t = torch.arange(length).float()
        shift = 6.28 * torch.rand(cranes, 1, generator=g)
        base = torch.sin(t / 24 + shift) + 0.5 * torch.sin(t / 168 * 6.28 + shift * 2)
        jumps = (torch.rand(cranes, length, generator=g) < 0.01).float().cumsum(1) % 2
        self.series = torch.stack([base + 0.7 * jumps * torch.sin(t / 5) + 0.2 * torch.randn(cranes, length, generator=g), jumps], 1)
        self.past, self.future = past, future
        self.index = [(c, s) for c in range(cranes) for s in range(0, length - past - future, 4)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        c, s = self.index[i]
        return self.series[c, :, s : s + self.past], self.series[c, 0, s + self.past : s + self.past + self.future]


class TCN(nn.Module):
    def __init__(self, c=64, future=12):
        super().__init__()
        self.inp = nn.Conv1d(2, c, 1)
        self.layers = nn.ModuleList(nn.Conv1d(c, c, 3, padding=d, dilation=d) for d in (1, 2, 4, 8, 16))
        self.out = nn.Linear(c, 2 * future)

    def forward(self, x):
        h = self.inp(x)
        for layer in self.layers:
            h = h + torch.relu(layer(h))
        return self.out(h[..., -8:].mean(-1)).chunk(2, -1)


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=world)
    torch.manual_seed(1)
    data = Cycles()
    sampler = DistributedSampler(data, world, rank, shuffle=True, drop_last=True)
    loader = DataLoader(data, 16, sampler=sampler, drop_last=True)
    net = DDP(TCN())
    opt = torch.optim.AdamW(net.parameters(), 1e-4)
    print(f"rank {rank} of {world}: {len(loader)} batches, {len(loader) // ACCUM} updates per epoch", flush=True)
    for epoch in range(400):
        sampler.set_epoch(epoch)
        began, total = time.time(), 0.0
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % ACCUM == 0
            with contextlib.nullcontext() if last else net.no_sync():
                mean, log_var = net(x)
                loss = 0.5 * ((y - mean) ** 2 * (-log_var).exp() + log_var).mean()
                (loss / ACCUM).backward()
            if last:
                opt.step()
                opt.zero_grad(set_to_none=True)
            total += loss.item()
        opt.zero_grad(set_to_none=True)
        print(f"epoch {epoch} nll {total / len(loader):.4f} seconds {time.time() - began:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
