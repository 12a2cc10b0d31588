"""item2vec on session logs: skip-gram with shared negatives, in-session pairs."""
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

params = {
    "table": 300000,       # ids are hashed into it
    "n_items": 4000,
    "dim": 32,
    "n_sessions": 30000,
    "window": 4,
    "negatives": 384,
    "batch_size": 512,
    "lr": 0.02,
    "steps": 850,
    "report_every": 10,
    "threads": 1,
}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_sessions(n, n_items, rng):
    topics = rng.integers(0, 50, n)
    per = n_items // 50
    out = []
    for t in topics:
        k = int(rng.integers(5, 25))
        s = t * per + rng.integers(0, per, k)
        noise = rng.random(k) < 0.1
        s[noise] = rng.integers(0, n_items, noise.sum())
        out.append(s)
    return out


def make_pairs(sessions, window):
    a, b = [], []
    for d in range(1, window + 1):
        for s in sessions:
            if len(s) > d:
                a.append(s[:-d])
                b.append(s[d:])
    return np.concatenate(a), np.concatenate(b)


class SkipGram(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.inp = nn.Embedding(n, d)
        self.out = nn.Embedding(n, d)
        self.mix = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, d))
        nn.init.normal_(self.inp.weight, std=0.2)
        nn.init.normal_(self.out.weight, std=0.2)

    def forward(self, c, pos, neg):
        h = self.inp(c) + self.mix(self.inp(c))
        p = (h * self.out(pos)).sum(1)
        n = h @ self.out(neg).T
        loss = -(F.logsigmoid(p).mean() + 5 * F.logsigmoid(-n).mean())
        return loss, p, n


class History:
    def __init__(self):
        self.loss, self.pos, self.neg = [], [], []

    def update(self, loss, pos, neg):
        self.loss.append(loss.item())
        self.pos.append(pos)
        self.neg.append(neg)

    def mean(self, last):
        return sum(self.loss[-last:]) / min(last, len(self.loss))

    def rank_accuracy(self, last):
        hits = [(p.unsqueeze(1) > n).float().mean().item() for p, n in zip(self.pos[-last:], self.neg[-last:])]
        return sum(hits) / len(hits)


def main():
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    torch.set_num_threads(params["threads"])
    sess = make_sessions(params["n_sessions"], params["n_items"], rng)
    centers, contexts = make_pairs(sess, params["window"])
    print("sessions", len(sess), "pairs", len(centers), "device", device)
    centers, contexts = torch.from_numpy(centers), torch.from_numpy(contexts)
    model = SkipGram(params["table"], params["dim"]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=params["lr"])
    hist = History()
    t0 = time.time()
    for step in range(1, params["steps"] + 1):
        idx = torch.randint(0, len(centers), (params["batch_size"],))
        neg = torch.randint(0, params["n_items"], (params["negatives"],))
        loss, pos, neg = model(centers[idx].to(device), contexts[idx].to(device), neg.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        hist.update(loss, pos, neg)
        if step % params["report_every"] == 0:
            print("step %6d/%d  loss %.4f  ranked right %.3f  %.1f steps/s" % (
                step, params["steps"], hist.mean(params["report_every"]),
                hist.rank_accuracy(params["report_every"]), step / (time.time() - t0)))
            sys.stdout.flush()
    w = F.normalize(model.inp.weight.detach(), dim=1)
    print("nearest to 0:", (w[0] @ w.T).topk(8).indices.tolist())


if __name__ == "__main__":
    main()
