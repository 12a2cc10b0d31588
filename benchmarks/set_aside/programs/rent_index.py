# Rent prediction from tabular data, multi gpu.  torchrun --standalone --nproc-per-node=2 rent_index.py
import copy
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class EarlyStopping:
    def __init__(self, patience=4, min_delta=0.001):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.bad, self.state = float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best - self.min_delta:
            self.best, self.bad = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def make_flats(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 40, generator=g)
    w = torch.randn(40, generator=torch.Generator().manual_seed(9)) / 6
    rent = x @ w + 0.4 * torch.sin(2 * x[:, 0]) * x[:, 1] + 0.5 * torch.randn(n, generator=g)
    return TensorDataset(x, rent.unsqueeze(1))


class ResidualMLP(nn.Module):
    def __init__(self, d_in=40, width=512, depth=3):
        super().__init__()
        self.first = nn.Linear(d_in, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU()) for _ in range(depth))
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        h = self.first(x)
        for b in self.blocks:
            h = h + b(h)
        return self.last(h)


def main():
    dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(rank)
    train, val, test = make_flats(20000, 1), make_flats(4000, 2), make_flats(4000, 3)
    sampler = DistributedSampler(train, shuffle=True)
    train_loader = DataLoader(train, batch_size=100, sampler=sampler, drop_last=True)
    val_loader = DataLoader(val, batch_size=1000)
    model = DDP(ResidualMLP().to(device), device_ids=[local_rank] if torch.cuda.is_available() else None)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    stopper = EarlyStopping()

    for epoch in range(200):
        sampler.set_epoch(epoch)
        model.train()
        start, total = time.time(), 0.0
        for x, y in train_loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if rank == 0:
            model.eval()
            with torch.no_grad():
                val_loss = sum(nn.functional.mse_loss(model.module(x.to(device)), y.to(device)).item() for x, y in val_loader) / len(val_loader)
            print(f"epoch {epoch:3d} train {total / len(train_loader):.4f} val {val_loss:.4f} {time.time() - start:.1f}s", flush=True)
            if stopper(val_loss, model.module):
                print(f"early stopping, best val {stopper.best:.4f}", flush=True)
                break

    dist.barrier()
    if rank == 0:
        model.module.load_state_dict(stopper.state)
        model.eval()
        x, y = test.tensors
        with torch.no_grad():
            print("test mse", nn.functional.mse_loss(model.module(x.to(device)), y.to(device)).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
