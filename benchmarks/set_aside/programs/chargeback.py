"""Chargeback risk: builds account features from the raw events, then trains."""
import multiprocessing as mp
import time

import numpy as np
import torch
from torch import nn

SETTINGS = {
    "accounts": 12000,
    "events": 60,
    "prepare_processes": 2,
    "batch_size": 256,
    "lr": 0.002,
    "epochs": 12000,
    "eval_every": 25,
    "width": 96,
}


def account(seed):
    g = np.random.default_rng(seed)
    bad = g.random() < 0.25
    t = np.cumsum(g.exponential(1.6 if bad else 2.0, SETTINGS["events"]))
    amt = g.lognormal(3.0 + 0.25 * bad, 1.0, SETTINGS["events"])
    mcc = g.integers(0, 20, SETTINGS["events"])
    feats = []
    for win in (1.0, 3.0, 10.0, 30.0):
        for stat in (np.mean, np.std, np.max, len):
            best = 0.0
            for i in range(0, len(t), 2):
                m = (t >= t[i]) & (t < t[i] + win)
                best = max(best, float(stat(amt[m])))
            feats.append(np.log1p(best))
    feats += [np.log1p(np.diff(t).mean()), np.log1p(np.diff(t).min()), float(len(set(mcc))), np.log1p(np.median(amt))]
    feats += list(np.bincount(mcc, minlength=20) / len(mcc))
    return np.asarray(feats, np.float32), np.float32(bad)


def prepare(n):
    X, y, t0 = [], [], time.time()
    with mp.Pool(SETTINGS["prepare_processes"]) as pool:
        for k, (f, b) in enumerate(pool.imap(account, range(n), chunksize=50), 1):
            X.append(f)
            y.append(b)
            if k % 1000 == 0:
                print(f"features: {k}/{n} accounts, {time.time() - t0:.0f}s", flush=True)
    return torch.from_numpy(np.stack(X)), torch.from_numpy(np.array(y))


def auc(score, y):
    r = score.argsort().argsort().double() + 1
    n1 = y.sum().double()
    return ((r[y > 0].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1))).item()


class Runner:
    def __init__(self, s):
        self.s = s
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def setup(self):
        X, y = prepare(self.s["accounts"])
        X = (X - X.mean(0)) / (X.std(0) + 1e-5)
        k = len(X) * 4 // 5
        self.train_x, self.train_y, self.val_x, self.val_y = X[:k], y[:k], X[k:], y[k:]
        w = self.s["width"]
        self.net = nn.Sequential(nn.Linear(X.shape[1], w), nn.ReLU(), nn.Dropout(0.5), nn.Linear(w, w), nn.ReLU(),
                                 nn.Dropout(0.5), nn.Linear(w, 1)).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), self.s["lr"], momentum=0.9, weight_decay=1e-2)

    def evaluate(self, draws=200):
        self.net.eval()
        with torch.no_grad():
            s = self.net(self.val_x.to(self.device)).squeeze(1).cpu()
        boot = []
        for _ in range(draws):
            i = torch.randint(0, len(s), (len(s),))
            boot.append(auc(s[i], self.val_y[i]))
        self.net.train()
        return auc(s, self.val_y), np.percentile(boot, [2.5, 97.5])

    def run(self):
        lf = nn.BCEWithLogitsLoss()
        for ep in range(1, self.s["epochs"] + 1):
            tot = 0.0
            for i in torch.randperm(len(self.train_x)).split(self.s["batch_size"]):
                loss = lf(self.net(self.train_x[i].to(self.device)).squeeze(1), self.train_y[i].to(self.device))
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                tot += loss.item() * len(i)
            if ep % 5 == 0:
                print(f"epoch {ep} train_loss {tot / len(self.train_x):.4f}", flush=True)
            if ep % self.s["eval_every"] == 0:
                v, (lo, hi) = self.evaluate()
                print(f"epoch {ep} val_auc {v:.4f} (95% {lo:.4f} to {hi:.4f})", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    r = Runner(SETTINGS)
    r.setup()
    r.run()
