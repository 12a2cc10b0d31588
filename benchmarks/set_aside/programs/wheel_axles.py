"""Remaining useful life of wheel axles from vibration: the training part, started by wheel_axles.sh."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class AxleNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(3, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
        )
        self.fc = nn.Linear(width, 1)

    def forward(self, x):
        return self.fc(self.conv(x).mean(-1)).squeeze(-1)


def vibrations(n, seed):
    g = torch.Generator().manual_seed(seed)
    wear = torch.rand(n, generator=g)
    t = torch.linspace(0, 1, 256)
    tone = torch.sin(2 * torch.pi * 30 * t)[None, None] * wear[:, None, None] * 1.5
    return tone + torch.randn(n, 3, 256, generator=g), 1.0 - wear


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(*vibrations(9600, 0))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=32, sampler=sampler, drop_last=True)
    model = DDP(AxleNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and i % 25 == 0:
                print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.5f}", flush=True)
        if rank == 0:
            torch.save({"epoch": epoch, "model": model.state_dict()}, os.path.join(args.out, "axles_last.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
