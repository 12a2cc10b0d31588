"""A character model of typed sentences (for the keyboard project). python typist_lm.py typist_lm.yaml [section.key=value ...]"""
import random
import sys
import time
from types import SimpleNamespace

import torch
import yaml
from torch import nn

WHO, DID, WHAT = ["she", "he", "the dog", "my aunt", "nobody"], ["saw", "wanted", "lost", "sold", "painted"], ["a boat", "the house", "two apples", "it all", "a letter"]
CHARS = sorted(set("".join(WHO + DID + WHAT) + " ."))


def configure(argv):
    with open(argv[0]) as f:
        cfg = yaml.safe_load(f)
    for item in argv[1:]:
        key, value = item.split("=", 1)
        section, name = key.split(".")
        cfg[section][name] = yaml.safe_load(value)
    return SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in cfg.items()})


def batches(cfg):
    rng = random.Random(cfg.run.seed)
    text = "".join(f"{rng.choice(WHO)} {rng.choice(DID)} {rng.choice(WHAT)}. " for _ in range(20_000))
    ids = torch.tensor([CHARS.index(c) for c in text])
    while True:
        at = torch.randint(0, len(ids) - cfg.data.length - 1, (cfg.data.batch, 1)) + torch.arange(cfg.data.length + 1)
        yield ids[at[:, :-1]], ids[at[:, 1:]]


class Typist(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Embedding(len(CHARS), width)
        self.rnn = nn.GRU(width, width, layers, batch_first=True)
        self.out = nn.Linear(width, len(CHARS))

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.run.seed)
        self.model = Typist(cfg.model.width, cfg.model.layers)
        self.opt = torch.optim.SGD(self.model.parameters(), cfg.optim.lr * 100, momentum=0.9, weight_decay=cfg.optim.weight_decay)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / cfg.optim.warmup))

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.optim.max_grad_norm)
        self.opt.step()
        self.sched.step()
        return loss.item()

    def fit(self):
        start = time.time()
        for n, (x, y) in enumerate(batches(self.cfg)):
            loss = self.step(x, y)
            if n % self.cfg.run.log_every == 0:
                print(f"step={n} loss={loss:.4f} ppl={2.718281828**loss:.2f} lr={self.sched.get_last_lr()[0]:.4f} t={time.time() - start:.1f}s", flush=True)
            if time.time() - start > self.cfg.run.seconds:
                break


if __name__ == "__main__":
    Trainer(configure(sys.argv[1:] or ["typist_lm.yaml"])).fit()
