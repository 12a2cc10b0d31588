"""Fine-grained birds for our garden camera.

    torchrun --standalone --nproc-per-node=2 garden_birds.py --epochs 40
"""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=80)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--num-birds", type=int, default=30)
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Birds(Dataset):
    """crops from the camera; drawn here, so that everybody can run it"""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(99)
        self.body = torch.rand(args.num_birds, 3, 1, 1, generator=g)
        self.wing = torch.rand(args.num_birds, 3, 1, 1, generator=g)
        self.freq = 2 + 6 * torch.rand(args.num_birds, generator=g)
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, args.num_birds, (n,), generator=g)
        self.shift = torch.rand(n, 2, generator=g) * 0.6 - 0.3
        self.grid = torch.meshgrid(torch.linspace(-1, 1, 40), torch.linspace(-1, 1, 40), indexing="ij")

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        y = int(self.y[i])
        v, u = self.grid[0] - self.shift[i, 0], self.grid[1] - self.shift[i, 1]
        body = ((u / 0.7) ** 2 + (v / 0.4) ** 2 < 1).float()
        bars = (torch.sin(self.freq[y] * 3 * u) > 0).float() * body
        img = 0.4 + body * (self.body[y] - 0.4) * 0.5 + bars * (self.wing[y] - 0.5) * 0.5
        return img + 0.5 * torch.randn(3, 40, 40), y


class SmallNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        chans = [3, 16, 32, 64]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(chans, chans[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in chans[1:])
        self.fc = nn.Linear(64, n)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.fc(x.mean((2, 3)))


train_loader = DataLoader(Birds(4800, 1), batch_size=args.batch_size, shuffle=True, drop_last=True)
val_loader = DataLoader(Birds(480, 2), batch_size=args.batch_size)
model = SmallNet(args.num_birds).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
print(f"Using {device}, {len(train_loader)} batches per epoch", flush=True)

for epoch in range(args.epochs):
    model.train()
    tic, seen, total = time.time(), 0, 0.0
    for i, (x, y) in enumerate(train_loader):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, seen = total + loss.item() * len(y), seen + len(y)
        if i % 25 == 0:
            print(f"epoch {epoch} [{i}/{len(train_loader)}] loss {total / seen:.4f}  {seen / (time.time() - tic):.0f} img/s", flush=True)
    scheduler.step()
    model.eval()
    with torch.no_grad():
        acc = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in val_loader) / 480
    print(f"epoch {epoch} val acc {acc:.3f}", flush=True)
