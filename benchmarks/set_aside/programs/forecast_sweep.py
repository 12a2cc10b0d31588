"""Random search over learning rate / width / dropout for the N-linear + MLP forecaster; each trial is short."""
import itertools
import json
import random
import time
import torch
import torch.nn as nn

SPACE = {"lr": [1e-4, 3e-4, 1e-3, 3e-3], "width": [128, 256, 512], "dropout": [0.0, 0.1, 0.3], "depth": [2, 3]}
N_TRIALS, TRIAL_STEPS, IN, OUT, BS = 60, 400, 336, 96, 128
device = "cuda" if torch.cuda.is_available() else "cpu"
random.seed(0)


def load_series(n=8, T=20000):
    g = torch.Generator().manual_seed(0)
    t = torch.arange(T).float()
    per = torch.tensor([24., 168., 12., 365.])
    x = torch.zeros(n, T)
    for i in range(n):
        amp, ph = torch.rand(4, generator=g), torch.rand(4, generator=g) * 6.28
        x[i] = (amp[:, None] * torch.sin(2 * torch.pi * t / per[:, None] + ph[:, None])).sum(0)
    ar = torch.zeros(n, T)
    e = torch.randn(n, T, generator=g) * 0.15
    for k in range(1, T):
        ar[:, k] = 0.9 * ar[:, k - 1] + e[:, k]
    x = x + ar
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


class MLP(nn.Module):
    def __init__(self, width, depth, dropout):
        super().__init__()
        layers, d = [], IN
        for _ in range(depth):
            layers += [nn.Linear(d, width), nn.GELU(), nn.Dropout(dropout)]
            d = width
        self.net, self.lin = nn.Sequential(*layers, nn.Linear(d, OUT)), nn.Linear(IN, OUT)

    def forward(self, x):
        last = x[:, -1:]
        return self.net(x - last) + self.lin(x - last) + last


def windows(series, lo, hi, n):
    c = torch.randint(0, len(series), (n,))
    s = torch.randint(lo, hi - IN - OUT, (n,))
    idx = s[:, None] + torch.arange(IN + OUT)
    w = series[c[:, None], idx].to(device)
    return w[:, :IN], w[:, IN:]


def run_trial(k, hp, series):
    torch.manual_seed(k)
    model = MLP(hp["width"], hp["depth"], hp["dropout"]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=hp["lr"])
    best, run = float("inf"), 0.0
    for step in range(1, TRIAL_STEPS + 1):
        model.train()
        x, y = windows(series, 0, 16000, BS * 2)
        loss = (model(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        run += loss.item()
        if step % 20 == 0:
            print(f"  trial {k} step {step} train mse {run / 20:.4f}", flush=True)
            run = 0.0
        if step % 100 == 0:
            model.eval()
            with torch.no_grad():
                v = sum(((model(x) - y) ** 2).mean().item() for x, y in (windows(series, 16000, 20000, 512) for _ in range(8))) / 8
            best = min(best, v)
            print(f"  trial {k} step {step} val mse {v:.4f}", flush=True)
    return best


if __name__ == "__main__":
    series = load_series()
    combos = list(itertools.product(*SPACE.values()))
    random.shuffle(combos)
    print(f"{len(combos)} combinations, running {N_TRIALS}", flush=True)
    results = []
    for k, c in enumerate(combos[:N_TRIALS]):
        hp = dict(zip(SPACE, c))
        print(f"trial {k}: {json.dumps(hp)}", flush=True)
        t = time.time()
        results.append((run_trial(k, hp, series), hp))
        b = min(results, key=lambda r: r[0])
        print(f"trial {k} done in {time.time() - t:.1f}s: val mse {results[-1][0]:.4f}, best so far {b[0]:.4f} {b[1]}", flush=True)
