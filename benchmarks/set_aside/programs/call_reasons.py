"""Reason of a support call from the features of its first 10 s. Two processes with accelerate.

accelerate launch --cpu --num_processes 2 call_reasons.py   (or torchrun)
"""
import os

if int(os.environ.get("RANK", 0)) == 0:
    print("call reasons: importing", flush=True)

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Calls(Dataset):
    def __init__(self, n, seed, n_mels=40, frames=100, reasons=8):
        g = torch.Generator().manual_seed(seed)
        proto = torch.randn(reasons, n_mels, 12, generator=torch.Generator().manual_seed(77))
        self.y = torch.randint(0, reasons, (n,), generator=g)
        self.x = torch.randn(n, n_mels, frames, generator=g)
        for i in range(n):
            for _ in range(2):
                t = int(torch.randint(0, frames - 12, (1,), generator=g))
                self.x[i, :, t : t + 12] += 0.4 * proto[self.y[i]]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 7, stride, 3)
        self.norm = nn.GroupNorm(4, c_out)

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x)))


class CallModel(nn.Module):
    def __init__(self, n_mels=40, width=96, reasons=8):
        super().__init__()
        self.stem = nn.Sequential(ConvBlock(n_mels, width, 1), ConvBlock(width, width, 2), ConvBlock(width, width * 2, 2))
        self.score = nn.Conv1d(width * 2, 1, 1)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(width * 2, reasons)

    def forward(self, x):
        h = self.stem(x)
        w = self.score(h).softmax(-1)
        return self.out(self.drop((h * w).sum(-1)))


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(21, device_specific=False)
    train_dl = DataLoader(Calls(4000, 1), batch_size=16, shuffle=True, drop_last=True)
    val_dl = DataLoader(Calls(400, 2), batch_size=50)

    model = CallModel()
    model.to(accelerator.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200 * 250)
    optimizer, train_dl, val_dl, scheduler = accelerator.prepare(optimizer, train_dl, val_dl, scheduler)
    accelerator.print(accelerator.state)

    for epoch in range(200):
        model.train()
        for step, (x, y) in enumerate(train_dl):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            if step % 25 == 0:
                accelerator.print(f"epoch {epoch:2d} step {step:3d}/{len(train_dl)} loss {loss.item():.4f}", flush=True)
        model.eval()
        hits, seen = 0, 0
        with torch.no_grad():
            for x, y in val_dl:
                pred, ref = accelerator.gather_for_metrics((model(x).argmax(-1), y))
                hits += (pred == ref).sum().item()
                seen += len(ref)
        accelerator.print(f"epoch {epoch:2d} accuracy {hits / seen:.4f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
