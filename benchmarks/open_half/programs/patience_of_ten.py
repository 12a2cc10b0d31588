"""Tiny tabular model with early stopping. It is done within a minute, and then prints its score and ends."""
import copy
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EarlyStopping:
    def __init__(self, patience, delta=1e-4):
        self.patience, self.delta, self.best, self.bad, self.state = patience, delta, float("inf"), 0, None

    def step(self, value, model):
        if value < self.best - self.delta:
            self.best, self.bad, self.state = value, 0, copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
            print(f"EarlyStopping counter: {self.bad} out of {self.patience}", flush=True)
        return self.bad >= self.patience


def main():
    torch.manual_seed(0)
    x = torch.randn(14_000, 14)
    y = ((x[:, 0] + x[:, 1] * x[:, 2] + torch.randn(14_000)) > 0).float()
    train, val = TensorDataset(x[:10_000], y[:10_000]), (x[10_000:12_000], y[10_000:12_000])
    model = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    stopper, bce = EarlyStopping(10), nn.BCEWithLogitsLoss()
    for epoch in range(500):
        t, total = time.time(), 0.0
        model.train()
        for bx, by in DataLoader(train, batch_size=16, shuffle=True):
            loss = bce(model(bx).squeeze(1), by)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(by)
        model.eval()
        with torch.no_grad():
            val_loss = bce(model(val[0]).squeeze(1), val[1]).item()
        print(f"epoch {epoch:3d} train_loss {total / len(train):.4f} val_loss {val_loss:.4f} {time.time() - t:.1f}s", flush=True)
        if stopper.step(val_loss, model):
            print("Early stopping", flush=True)
            break
    model.load_state_dict(stopper.state)
    with torch.no_grad():
        acc = ((model(x[12_000:]).squeeze(1) > 0) == (y[12_000:] > 0)).float().mean().item()
    print(f"best val_loss {stopper.best:.4f}, test accuracy {acc:.4f}", flush=True)


main()
