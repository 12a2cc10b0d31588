"""GRU4Rec-like session recommender.   python session_rec.py [config.yaml]"""
import bz2
import os
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml


class Config(dict):
    __getattr__ = dict.__getitem__

    @classmethod
    def load(cls, path):
        def wrap(d):
            return cls({k: wrap(v) if isinstance(v, dict) else v for k, v in d.items()})
        with open(path) as f:
            return wrap(yaml.safe_load(f))


def build_sessions(c):
    rng = np.random.default_rng(11)
    start = rng.integers(0, c.active, c.n_sessions)
    hop = rng.choice([1, 2, 3, 7], size=(c.n_sessions, c.length))
    s = (start[:, None] + np.cumsum(hop, 1)) % c.active
    flip = rng.random(s.shape) < 0.15
    s[flip] = rng.integers(0, c.n_items, flip.sum())
    return torch.from_numpy(s)


class GRURec(nn.Module):
    def __init__(self, items, m):
        super().__init__()
        self.emb = nn.Embedding(items, m.dim)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.drop = nn.Dropout(m.dropout)
        self.gru = nn.GRU(m.dim, m.hidden, batch_first=True)

    def forward(self, seq):
        h, _ = self.gru(self.drop(self.emb(seq)))
        return h


def sampled_loss(model, h, target, items, k=512):
    neg = torch.randint(0, items, (k,), device=h.device)
    pos = (h * model.emb(target)).sum(-1, keepdim=True)
    logits = torch.cat([pos, h @ model.emb(neg).T], -1)
    return F.cross_entropy(logits.flatten(0, 1), torch.zeros(target.numel(), dtype=torch.long, device=h.device))


class Checkpointer:
    def __init__(self, cfg):
        self.dir = cfg.dir or tempfile.mkdtemp(prefix="session_rec_")
        self.keep, self.saved = cfg.keep, []

    def save(self, step, **state):
        path = os.path.join(self.dir, f"step{step:07d}.pt.bz2")
        with bz2.open(path, "wb") as f:
            torch.save(dict(state, step=step), f)
        self.saved.append(path)
        while len(self.saved) > self.keep:
            os.remove(self.saved.pop(0))


def train(cfg):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    sessions = build_sessions(cfg.data)
    model = GRURec(cfg.data.n_items, cfg.model).to(device)
    optim = torch.optim.Adam(model.parameters(), lr=cfg.optim.lr)
    ckpt = Checkpointer(cfg.ckpt)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters on {device}, checkpoints in {ckpt.dir}",
          flush=True)
    step, avg = 0, None
    for epoch in range(cfg.optim.epochs):
        for idx in torch.randperm(len(sessions)).split(cfg.optim.batch_size):
            seq = sessions[idx].to(device)
            loss = sampled_loss(model, model(seq[:, :-1]), seq[:, 1:], cfg.data.active)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            step += 1
            avg = loss.item() if avg is None else 0.95 * avg + 0.05 * loss.item()
            if step % cfg.log_every == 0:
                print(f"{time.strftime('%H:%M:%S')} epoch {epoch} step {step} loss {avg:.4f}", flush=True)
            if step % cfg.ckpt.every == 0:
                ckpt.save(step, model=model.state_dict(), optim=optim.state_dict(), cfg=dict(cfg))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    train(Config.load(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "session_rec.yaml")))
