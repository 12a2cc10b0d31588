"""Predict the sap flow of sugar maples an hour ahead from the weather of the last two days (LSTM)."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--window", type=int, default=48)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--bs", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--epochs", type=int, default=300)
args = parser.parse_args()

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


def make_series(hours=5000, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    temp = 4 * np.sin(2 * np.pi * (t - 9) / 24) + np.cumsum(rng.normal(0, 0.25, hours)) * 0.3
    temp = temp - np.convolve(temp, np.ones(240) / 240, mode="same")
    pressure = np.cumsum(rng.normal(0, 0.3, hours))
    pressure = pressure - np.convolve(pressure, np.ones(240) / 240, mode="same")
    frost = (temp < 0).astype(float)
    thaw = np.convolve(frost, np.ones(10) / 10)[:hours] * np.clip(temp, 0, None)
    flow = thaw + 0.05 * pressure + rng.normal(0, 0.05, hours)
    data = np.stack([temp, pressure, np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24), flow], 1)
    return ((data - data.mean(0)) / data.std(0)).astype(np.float32)


def make_windows(data, window):
    X = np.stack([data[i : i + window] for i in range(len(data) - window)])
    y = data[window:, -1]
    return torch.from_numpy(X), torch.from_numpy(y)


X, y = make_windows(make_series(), args.window)
cut = int(0.8 * len(X))
train_loader = DataLoader(TensorDataset(X[:cut], y[:cut]), batch_size=args.bs, shuffle=True, drop_last=True)
valid_loader = DataLoader(TensorDataset(X[cut:], y[cut:]), batch_size=args.bs, drop_last=True)
print(f"train {tuple(X[:cut].shape)}  valid {tuple(X[cut:].shape)}")


class SapNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.lstm = nn.LSTM(n_in, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


model = SapNet(X.shape[-1], args.hidden).to(device)
loss_fn = nn.MSELoss()
optim = torch.optim.AdamW(model.parameters(), lr=args.lr)

for epoch in range(args.epochs):
    model.train()
    total = 0.0
    for step, (xb, yb) in enumerate(train_loader):
        xb, yb = xb.to(device), yb.to(device)
        loss = loss_fn(model(xb), yb)
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        total += loss.item()
        if step % 20 == 0:
            print(f"epoch {epoch:03d} step {step:03d} mse {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        val = np.mean([loss_fn(model(xb.to(device)), yb.to(device)).item() for xb, yb in valid_loader])
    print(f"epoch {epoch:03d} train mse {total / len(train_loader):.4f} valid mse {val:.4f}")
