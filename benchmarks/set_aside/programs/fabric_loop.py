from __future__ import annotations

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Predict the next 8 values of a noisy sum of sines from the last 64 (N-BEATS style blocks).  torchrun --nproc-per-node=2 fabric_loop.py


class Block(nn.Module):
    def __init__(self, look=64, ahead=8, width=192, last=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(look, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.back, self.fore = None if last else nn.Linear(width, look), nn.Linear(width, ahead)

    def forward(self, x):
        h = self.body(x)
        return x if self.back is None else x - self.back(h), self.fore(h)


class Stack(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(last=i == n - 1) for i in range(n))

    def forward(self, x):
        total = 0
        for block in self.blocks:
            x, y = block(x)
            total = total + y
        return total


def windows(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(72.0)
    freq = torch.rand(n, 3, 1, generator=g) * 0.5 + 0.05
    phase = torch.rand(n, 3, 1, generator=g) * 6.28
    s = torch.sin(freq * t + phase).sum(1) + 0.1 * torch.randn(n, 72, generator=g)
    return TensorDataset(s[:, :64], s[:, 64:])


def main():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    torch.set_num_threads(1)
    fabric.seed_everything(1)
    model = Stack()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=200)
    model, opt = fabric.setup(model, opt)
    train = fabric.setup_dataloaders(DataLoader(windows(20000, 0), 128, shuffle=True))
    val = fabric.setup_dataloaders(DataLoader(windows(1000, 1), 250))
    for epoch in range(200):
        model.train()
        seen = 0.0
        for x, y in train:
            loss = nn.functional.l1_loss(model(x), y)
            opt.zero_grad()
            fabric.backward(loss)
            opt.step()
            seen += loss.item()
        sched.step()
        model.eval()
        with torch.no_grad():
            mae = sum(nn.functional.l1_loss(model(x), y).item() for x, y in val) / len(val)
        mae = fabric.all_reduce(torch.tensor(mae), reduce_op="mean").item()
        fabric.print(f"Epoch {epoch:03d} | train_mae {seen / len(train):.4f} | val_mae {mae:.4f} | lr {sched.get_last_lr()[0]:.2e}", flush=True)


if __name__ == "__main__":
    main()
