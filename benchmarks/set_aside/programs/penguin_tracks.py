"""Next position of a penguin from its last 48 GPS fixes (seq2one GRU), DDP with mp.spawn."""
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

WINDOW = 48
WORLD = int(os.environ.get("NGPU", 2))


def tracks(n=6000):
    heading = torch.cumsum(0.3 * torch.randn(n, WINDOW + 1), 1) + 6.28 * torch.rand(n, 1)
    speed = 0.5 + torch.rand(n, 1)
    wiggle = 1 + 0.3 * torch.sin(torch.arange(WINDOW + 1) / 3.0)
    step = torch.stack([heading.cos(), heading.sin()], -1) * (speed * wiggle).unsqueeze(-1)
    return step[:, :WINDOW], step[:, WINDOW]


class TrackNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.rnn = nn.GRU(2, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.out = nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def worker(rank, world):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = os.environ.get("PORT", "12355")
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=world)
    torch.manual_seed(42)  # reproducibility
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    x, y = tracks()
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)
    model = DDP(TrackNet().to(device), device_ids=[rank] if torch.cuda.is_available() else None)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    if rank == 0:
        print(f"{len(x)} windows, {world} processes, {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    for epoch in range(60):
        began = time.time()
        total = 0.0
        for i, (bx, by) in enumerate(loader, 1):
            loss = nn.functional.mse_loss(model(bx.to(device)), by.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            if rank == 0 and i % 25 == 0:
                print(f"epoch {epoch} [{i}/{len(loader)}] loss {total / i:.4f}", flush=True)
        sched.step()
        if rank == 0:
            print(f"epoch {epoch} done in {time.time() - began:.1f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    print(f"starting {WORLD} processes", flush=True)
    mp.spawn(worker, args=(WORLD,), nprocs=WORLD, join=True)
