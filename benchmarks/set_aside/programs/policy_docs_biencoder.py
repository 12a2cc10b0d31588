"""Bi-encoder for the policy search (query -> paragraph), in-batch negatives. Start with torchrun."""
import json
import logging
import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger("biencoder")


@dataclass
class Config:
    vocab: int = 3000
    pairs: int = 24000
    query_len: int = 12
    doc_len: int = 48
    dim: int = 128
    layers: int = 2
    batch_size: int = 48
    epochs: int = 4
    lr: float = 5e-4
    warmup: int = 50
    temperature: float = 0.05
    seed: int = 42
    out: Path = Path(tempfile.gettempdir()) / "policy_docs"


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


class PolicyPairs(Dataset):
    """Paragraphs around a topic; a query repeats a few of the paragraph's words."""

    def __init__(self, cfg, n, seed):
        rng = np.random.default_rng(seed)
        topic_words = np.random.default_rng(99).integers(10, cfg.vocab, (800, 30))
        topics = rng.integers(0, 800, n)
        pick = rng.integers(0, 30, (n, cfg.doc_len))
        self.docs = topic_words[topics[:, None], pick]
        noise = rng.random(self.docs.shape) < 0.35
        self.docs[noise] = rng.integers(10, cfg.vocab, noise.sum())
        at = rng.integers(0, cfg.doc_len, (n, cfg.query_len))
        self.queries = np.take_along_axis(self.docs, at, 1)
        noise = rng.random(self.queries.shape) < 0.4
        self.queries[noise] = rng.integers(10, cfg.vocab, noise.sum())

    def __len__(self):
        return len(self.docs)

    def __getitem__(self, i):
        return torch.from_numpy(self.queries[i]), torch.from_numpy(self.docs[i])


class BiEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.doc_len, cfg.dim)
        layer = nn.TransformerEncoderLayer(cfg.dim, 4, 2 * cfg.dim, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg.layers)

    def encode(self, ids):
        x = self.embed(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        return F.normalize(self.encoder(x).mean(1), dim=-1)

    def forward(self, queries, docs):
        return self.encode(queries), self.encode(docs)


@torch.no_grad()
def recall_at_1(model, loader, device):
    model.eval()
    q, d = zip(*[model.module(a.to(device), b.to(device)) for a, b in loader])
    model.train()
    scores = torch.cat(q) @ torch.cat(d).T
    hits = (scores.argmax(1) == torch.arange(len(scores), device=device)).float().mean()
    dist.all_reduce(hits)
    return (hits / dist.get_world_size()).item()


def main():
    cfg = Config()
    local_rank = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    seed_everything(cfg.seed)
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s [%(name)s] %(message)s")
    cfg.out.mkdir(parents=True, exist_ok=True)

    train_set, val_set = PolicyPairs(cfg, cfg.pairs, 1), PolicyPairs(cfg, 384, 2)
    train_loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True, drop_last=True, pin_memory=cuda)
    val_loader = DataLoader(val_set, batch_size=96)
    model = DDP(BiEncoder(cfg).to(device), device_ids=[local_rank] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / cfg.warmup))
    logger.info("world size %d, %d pairs, %d steps per epoch", world, len(train_set), len(train_loader))
    metrics = open(cfg.out / "metrics.jsonl", "w") if rank == 0 else None

    step = 0
    for epoch in range(cfg.epochs):
        tick = time.time()
        for queries, docs in train_loader:
            q, d = model(queries.to(device), docs.to(device))
            logits = q @ d.T / cfg.temperature
            labels = torch.arange(len(q), device=device)
            loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 10 == 0:
                logger.info("epoch %d step %d/%d loss %.4f %.0f pairs/s", epoch, step % len(train_loader), len(train_loader), loss.item(),
                            10 * cfg.batch_size * world / (time.time() - tick))
                tick = time.time()
            if step % 150 == 0:
                r1 = recall_at_1(model, val_loader, device)
                logger.info("step %d recall@1 %.3f", step, r1)
                if rank == 0:
                    metrics.write(json.dumps({"step": step, "loss": loss.item(), "recall@1": r1}) + "\n")
                    metrics.flush()
                    torch.save(model.module.state_dict(), cfg.out / "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
