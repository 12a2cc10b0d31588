"""Item embeddings from titles with momentum contrast: two noisy views of a title, a queue of negatives."""
import argparse
import copy
import csv
import logging
import os
import tempfile
import time
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("moco")


@dataclass
class Options:
    items: int = 30000
    vocab: int = 4000
    length: int = 20
    dim: int = 128
    batch: int = 96
    queue: int = 4096
    momentum: float = 0.99
    temperature: float = 0.1
    lr: float = 6e-4
    warmup: int = 80
    steps: int = 3000
    eval_every: int = 150


def make_titles(o):
    rng = np.random.default_rng(8)
    brand = rng.integers(5, 300, o.items)
    kind = rng.integers(0, 250, o.items)
    kind_words = rng.integers(300, o.vocab, (250, 25))
    titles = kind_words[kind[:, None], rng.integers(0, 25, (o.items, o.length))]
    titles[:, 0] = brand
    own = rng.integers(300, o.vocab, (o.items, 5))
    titles[:, 3:8] = own
    return torch.from_numpy(titles)


def view(titles, o):
    drop = torch.rand(titles.shape, device=titles.device) < 0.3
    swap = torch.rand(titles.shape, device=titles.device) < 0.1
    random_words = torch.randint(300, o.vocab, titles.shape, device=titles.device)
    out = torch.where(swap, random_words, titles)
    return out.masked_fill(drop, 1)


class TitleEncoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.words = nn.Embedding(o.vocab, o.dim, padding_idx=1)
        self.pos = nn.Parameter(torch.randn(o.length, o.dim) * 0.02)
        layer = nn.TransformerEncoderLayer(o.dim, 4, 3 * o.dim, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(o.dim, o.dim), nn.GELU(), nn.Linear(o.dim, 64))

    def forward(self, ids):
        return F.normalize(self.head(self.body(self.words(ids) + self.pos).mean(1)), dim=-1)


class MomentumContrast:
    def __init__(self, o, device):
        self.o = o
        self.query = TitleEncoder(o).to(device)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.key.eval()
        self.bank = F.normalize(torch.randn(o.queue, 64, device=device), dim=-1)
        self.at = 0

    @torch.no_grad()
    def update_key(self):
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.lerp_(q, 1 - self.o.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        where = (self.at + torch.arange(len(keys), device=keys.device)) % self.o.queue
        self.bank[where] = keys
        self.at = int(self.at + len(keys)) % self.o.queue

    def loss(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            k = self.key(b)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.bank.clone().T], 1) / self.o.temperature
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))
        self.enqueue(k)
        return loss


@torch.no_grad()
def recall(moco, titles, o):
    moco.query.eval()
    a = torch.cat([moco.query(view(t, o)) for t in titles.split(256)])
    b = torch.cat([moco.query(view(t, o)) for t in titles.split(256)])
    moco.query.train()
    rank = ((a @ b.T) > (a * b).sum(1, keepdim=True)).sum(1)
    return (rank == 0).float().mean().item(), (rank < 10).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    for f in fields(Options):
        parser.add_argument("--" + f.name.replace("_", "-"), type=f.type, default=f.default)
    o = Options(**vars(parser.parse_args()))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(4)
    titles = make_titles(o).to(device)
    held_out, train = titles[:1024], titles[1024:]
    moco = MomentumContrast(o, device)
    opt = torch.optim.AdamW(moco.query.parameters(), lr=o.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, ((s + 1) / o.warmup) ** 2))
    out = os.path.join(tempfile.gettempdir(), "catalog_moco")
    os.makedirs(out, exist_ok=True)
    table = csv.writer(open(os.path.join(out, "metrics.csv"), "w", buffering=1))
    log.info("%d titles on %s, queue %d, chance loss %.2f", len(train), device, o.queue, np.log(o.queue + 1))
    t0 = time.time()
    for step in range(1, o.steps + 1):
        batch = train[torch.randint(len(train), (o.batch,), device=device)]
        loss = moco.loss(view(batch, o), view(batch, o))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        moco.update_key()
        if step % 10 == 0:
            log.info("step %d loss %.4f lr %.2e %.1f it/s", step, loss.item(), sched.get_last_lr()[0], step / (time.time() - t0))
        if step % o.eval_every == 0:
            r1, r10 = recall(moco, held_out, o)
            log.info("step %d recall@1 %.3f recall@10 %.3f", step, r1, r10)
            table.writerow([step, loss.item(), r1, r10])
            torch.save({"query": moco.query.state_dict(), "key": moco.key.state_dict(), "bank": moco.bank}, os.path.join(out, "moco.pt"))


if __name__ == "__main__":
    main()
