import argparse
import time

import numpy as np
import torch
import torch.nn as nn


def get_args():
    p = argparse.ArgumentParser("card fraud")
    p.add_argument("--rows", type=int, default=300000)
    p.add_argument("--batch-size", type=int, default=1024)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--gamma", type=float, default=2.0)
    p.add_argument("--alpha", type=float, default=0.75)
    p.add_argument("--epochs", type=int, default=100)
    p.add_argument("--print-freq", type=int, default=25)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return p.parse_args()


def load(rows, seed=3):
    g = np.random.default_rng(seed)
    fraud = (g.random(rows) < 0.02).astype(np.float32)
    amount = np.exp(g.normal(3.2, 1.3, rows) + 1.2 * fraud).astype(np.float32)
    gap = g.exponential(5.0, rows).astype(np.float32) * (1 - 0.7 * fraud)
    country = g.integers(0, 60, rows)
    country = np.where((fraud > 0) & (g.random(rows) < 0.5), 50 + country % 10, country)
    merchant = g.integers(0, 400, rows)
    velocity = g.poisson(2 + 6 * fraud, rows).astype(np.float32)
    v = g.normal(size=(rows, 12)).astype(np.float32) + 0.5 * fraud[:, None]
    num = np.column_stack([np.log1p(amount), gap, velocity, amount / 50.0, v]).astype(np.float32)
    return torch.from_numpy(num), torch.from_numpy(np.column_stack([country, merchant])), torch.from_numpy(fraud)


class FocalLoss(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logit, y):
        p = torch.sigmoid(logit)
        pos = self.alpha * y * (1 - p) ** self.gamma * torch.log(p)
        neg = (1 - self.alpha) * (1 - y) * p ** self.gamma * torch.log(1 - p)
        return -(pos + neg).mean()


class FraudNet(nn.Module):
    def __init__(self, n_num):
        super().__init__()
        self.country = nn.Embedding(60, 8)
        self.merchant = nn.Embedding(400, 16)
        self.net = nn.Sequential(nn.Linear(n_num + 24, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                                 nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, num, cat):
        return self.net(torch.cat([num, self.country(cat[:, 0]), self.merchant(cat[:, 1])], 1)).squeeze(1)


def recall_at(score, y, frac=0.02):
    k = int(frac * len(y))
    return (y[score.argsort(descending=True)[:k]].sum() / y.sum()).item()


def main():
    args = get_args()
    torch.manual_seed(1)
    num, cat, y = load(args.rows)
    n_val = args.rows // 10
    tr = slice(n_val, None)
    num_v, cat_v, y_v = (t[:n_val].to(args.device) for t in (num, cat, y))
    num, cat, y = num[tr], cat[tr], y[tr]
    model = FraudNet(num.shape[1]).to(args.device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    crit = FocalLoss(args.alpha, args.gamma)
    print(f"[data] train={len(y)} val={n_val} fraud rate={y.mean():.4f} device={args.device}", flush=True)
    it, t0 = 0, time.time()
    for ep in range(1, args.epochs + 1):
        perm = torch.randperm(len(y))
        for b in perm.split(args.batch_size):
            xb, cb, yb = num[b].to(args.device), cat[b].to(args.device), y[b].to(args.device)
            loss = crit(model(xb, cb), yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            it += 1
            if it % args.print_freq == 0:
                print(f"[train] ep {ep} it {it} focal_loss={loss.item():.6f} t={time.time() - t0:.0f}s", flush=True)
        with torch.no_grad():
            s = model(num_v, cat_v)
        print(f"[val] ep {ep} recall@2%={recall_at(s, y_v):.4f}", flush=True)


if __name__ == "__main__":
    main()
