"""Listwise ranking of hotel offers. The search log lies in shards; every rank reads its own."""
import argparse
import logging
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

log = logging.getLogger("listwise")
FEATURES, OFFERS = 48, 40


def export_shards(folder, shards, searches, seed=3):
    rng = np.random.default_rng(seed)
    w1, w2 = rng.normal(size=(FEATURES, 16)) / 4, rng.normal(size=16)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("searches-*.npz"):
        old.unlink()
    for s in range(shards):
        x = rng.normal(size=(searches, OFFERS, FEATURES)).astype(np.float32)
        utility = np.tanh(x @ w1) @ w2 + rng.gumbel(size=(searches, OFFERS)) * 0.6
        np.savez(folder / f"searches-{s:03d}.npz", offers=x, booked=utility.argmax(1))


class SearchLog(IterableDataset):
    def __init__(self, files, shuffle=True):
        self.files, self.shuffle, self.epoch = files, shuffle, 0

    def __iter__(self):
        rng = np.random.default_rng(self.epoch)
        files = list(self.files)
        if self.shuffle:
            rng.shuffle(files)
        for path in files:
            with np.load(path) as shard:
                offers, booked = shard["offers"], shard["booked"]
            order = rng.permutation(len(booked)) if self.shuffle else np.arange(len(booked))
            for i in order:
                yield torch.from_numpy(offers[i]), int(booked[i])


class OfferRanker(nn.Module):
    def __init__(self, dim=160, heads=4, layers=2):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(FEATURES, dim), nn.ReLU(), nn.Linear(dim, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True)
        self.cross = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(dim, 1)

    def forward(self, offers):
        return self.out(self.cross(self.inp(offers))).squeeze(-1)


class RankingJob:
    def __init__(self, args):
        self.args = args
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.cuda = torch.cuda.is_available()
        dist.init_process_group("nccl" if self.cuda else "gloo")
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = torch.device("cuda", self.local_rank) if self.cuda else torch.device("cpu")
        logging.basicConfig(level=logging.INFO, format=f"%(asctime)s rank{self.rank} %(message)s")
        folder = Path(args.data)
        if self.rank == 0:
            export_shards(folder, args.shards, args.searches)
        dist.barrier()
        files = sorted(folder.glob("searches-*.npz"))
        self.train_data = SearchLog(files[self.rank::self.world])
        self.loader = DataLoader(self.train_data, args.batch_size, drop_last=True)
        torch.manual_seed(args.seed + self.rank)
        self.model = DDP(OfferRanker().to(self.device), device_ids=[self.local_rank] if self.cuda else None)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        log.info("shards: %s", " ".join(f.stem for f in self.train_data.files))

    def train_epoch(self, epoch):
        self.model.train()
        self.train_data.epoch = epoch
        losses, hits, seen, t0 = [], 0, 0, time.time()
        for step, (offers, booked) in enumerate(self.loader):
            offers, booked = offers.to(self.device), booked.to(self.device)
            scores = self.model(offers)
            loss = F.cross_entropy(scores, booked)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            losses.append(loss.item())
            hits += (scores.argmax(1) == booked).sum().item()
            seen += len(booked)
            if self.rank == 0 and step % 5 == 0:
                log.info("epoch %d step %d loss %.4f top1 %.3f  %.0f searches/s", epoch, step, loss.item(), hits / seen,
                         seen * self.world / (time.time() - t0))
        return float(np.mean(losses))

    def save(self, epoch, loss):
        dist.barrier()
        if self.rank == 0:
            out = Path(self.args.data) / f"ranker_{epoch:02d}.pt"
            torch.save({"model": self.model.module.state_dict(), "opt": self.opt.state_dict(), "loss": loss}, out)
            log.info("saved %s", out)

    def run(self):
        for epoch in range(self.args.epochs):
            loss = self.train_epoch(epoch)
            self.save(epoch, loss)
        dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data", default=os.path.join(tempfile.gettempdir(), "hotel_listwise"))
    p.add_argument("--shards", type=int, default=7)
    p.add_argument("--searches", type=int, default=1500)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=0)
    RankingJob(p.parse_args()).run()
