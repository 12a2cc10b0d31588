"""Cross-validated grid over GRUs that predict the remaining life of battery cells. Configuration: gru_sweep.yaml"""
import itertools
import pathlib
import time

import numpy as np
import torch
import torch.nn as nn
import yaml

cfg = yaml.safe_load((pathlib.Path(__file__).parent / "gru_sweep.yaml").read_text())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_cells(cells, cycles, channels, seed):
    rng = np.random.default_rng(seed)
    rate = rng.gamma(4.0, 0.01, cells)
    knee = rng.uniform(20, 90, cells)
    t = np.arange(cycles)
    fade = rate[:, None] * t / 10 + 0.05 * np.maximum(0, t - knee[:, None])
    x = np.stack([1 - fade, np.gradient(fade, axis=1) * 20, np.sin(t / 7)[None] * rate[:, None] * 10, np.cumsum(fade, 1) / 30], 2)[..., :channels]
    x = x + 0.08 * rng.standard_normal(x.shape)
    y = np.log(knee / rate) - 6.5
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


class LifeGRU(nn.Module):
    def __init__(self, c, hidden, dropout):
        super().__init__()
        self.gru = nn.GRU(c, hidden, num_layers=2, batch_first=True, dropout=dropout)
        self.out = nn.Sequential(nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.out(self.gru(x)[0][:, -1]).squeeze(1)


def train_fold(x, y, fold, trial):
    ids = torch.arange(len(x)) % cfg["folds"]
    xt, yt, xv, yv = x[ids != fold].to(device), y[ids != fold].to(device), x[ids == fold].to(device), y[ids == fold].to(device)
    torch.manual_seed(fold)
    net = LifeGRU(x.shape[2], trial["hidden"], trial["dropout"]).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=trial["lr"])
    for epoch in range(cfg["epochs"]):
        net.train()
        tot = 0.0
        for b in torch.randperm(len(xt)).split(cfg["batch"]):
            loss = nn.functional.mse_loss(net(xt[b]), yt[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(b)
        if epoch % 2 == 1:
            print(f"    fold {fold} epoch {epoch + 1:2d} train mse {tot / len(xt):.4f}", flush=True)
    net.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(net(xv), yv).sqrt().item()


x, y = make_cells(**cfg["data"])
keys = list(cfg["grid"])
trials = [dict(zip(keys, v)) for v in itertools.product(*cfg["grid"].values())]
print(f"{len(trials)} trials x {cfg['folds']} folds on {device}", flush=True)
board = []
for n, trial in enumerate(trials):
    t0 = time.time()
    print(f"trial {n + 1}/{len(trials)} {trial}", flush=True)
    rmse = [train_fold(x, y, f, trial) for f in range(cfg["folds"])]
    board.append((float(np.mean(rmse)), trial))
    print(f"trial {n + 1}: rmse {np.mean(rmse):.4f} +- {np.std(rmse):.4f} in {time.time() - t0:.1f}s; best so far {min(b[0] for b in board):.4f}", flush=True)
for s, trial in sorted(board, key=lambda b: b[0])[:5]:
    print(f"{s:.4f} {trial}")
