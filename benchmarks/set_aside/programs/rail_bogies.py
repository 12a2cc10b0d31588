"""Bearing condition of rail bogies from accelerometer windows; multi GPU with accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONDITIONS = 6


def windows(n, length=512, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CONDITIONS, (n,), generator=g)
    t = torch.arange(length) / length
    f = (12 + 5 * y)[:, None] + torch.rand(n, 1, generator=g) * 3
    x = torch.sin(6.283 * f * t) * 0.5 + torch.sin(6.283 * 40 * t + torch.rand(n, 1, generator=g) * 6)
    return TensorDataset((x + torch.randn(n, length, generator=g))[:, None], y)


class BogieNet(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        layers, i = [], 1
        for o in (w, 2 * w, 2 * w, 4 * w):
            layers += [nn.Conv1d(i, o, 9, stride=2, padding=4), nn.BatchNorm1d(o), nn.ReLU()]
            i = o
        self.body, self.fc = nn.Sequential(*layers), nn.Linear(i, CONDITIONS)

    def forward(self, x):
        return self.fc(self.body(x).mean(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    accelerator = Accelerator(cpu=True)
    print(accelerator.state, flush=True)
    set_seed(42)
    train, valid = windows(12000, seed=1), windows(2000, seed=2)
    model = BogieNet()
    optim = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train_dl = DataLoader(train, args.batch_size, shuffle=True)
    valid_dl = DataLoader(valid, 200)
    model, optim, train_dl, valid_dl = accelerator.prepare(model, optim, train_dl, valid_dl)
    accelerator.print(f"{len(train_dl)} batches per process", flush=True)
    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(train_dl):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optim.step()
            optim.zero_grad()
            if i % 20 == 0:
                accelerator.print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        model.eval()
        hits = []
        with torch.no_grad():
            for x, y in valid_dl:
                hits.append(accelerator.gather_for_metrics((model(x).argmax(1) == y).float()))
        accelerator.print(f"epoch {epoch} valid accuracy {torch.cat(hits).mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
