# Stromverbrauch eines Haushalts vorhersagen (LSTM), Masterprojekt
import math
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CFG = dict(window=48, hidden=64, layers=1, batch=64, lr=1e-3, epochs=400, seed=11)
torch.manual_seed(CFG["seed"])
rng = np.random.default_rng(CFG["seed"])
dev = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def consumption(hours):
    t = np.arange(hours)
    base = 0.8 + 0.5 * np.sin(2 * np.pi * (t - 7) / 24) + 0.3 * np.sin(2 * np.pi * t / 12)
    weekend = 0.4 * ((t // 24) % 7 >= 5)
    walk = np.cumsum(rng.normal(0, 0.03, hours))
    walk -= np.convolve(walk, np.ones(240) / 240, mode="same")
    return base + weekend + walk + rng.normal(0, 0.05, hours)


series = consumption(9000)
mean, std = series[:7000].mean(), series[:7000].std()
series = ((series - mean) / std).astype(np.float32)


def windows(s):
    # X: 48 Stunden, y: die naechste Stunde
    X = np.stack([s[i : i + CFG["window"]] for i in range(len(s) - CFG["window"])])
    y = s[CFG["window"] :]
    return TensorDataset(torch.from_numpy(X).unsqueeze(-1), torch.from_numpy(y.copy()))


train_dl = DataLoader(windows(series[:7000]), batch_size=CFG["batch"], shuffle=True, drop_last=True)
val_dl = DataLoader(windows(series[7000:]), batch_size=CFG["batch"], drop_last=True)


class Forecaster(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


model = Forecaster(CFG["hidden"], CFG["layers"]).to(dev)
loss_fn = nn.MSELoss()
opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
print("Gewichte:", sum(p.numel() for p in model.parameters()), "| Fenster:", len(train_dl.dataset), flush=True)

for ep in range(1, CFG["epochs"] + 1):
    t0 = time.time()
    model.train()
    s = 0.0
    for X, y in train_dl:
        X, y = X.to(dev), y.to(dev)
        loss = loss_fn(model(X), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        s += loss.item()
    model.eval()
    v = 0.0
    with torch.no_grad():
        for X, y in val_dl:
            v += loss_fn(model(X.to(dev)), y.to(dev)).item()
    s, v = s / len(train_dl), v / len(val_dl)
    print(f"Epoche {ep:3d} | train mse {s:.4f} | val mse {v:.4f} | rmse {math.sqrt(v) * std:.3f} kWh | {time.time() - t0:.1f}s")
    sys.stdout.flush()
