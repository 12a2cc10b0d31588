"""Supervised fine-tuning of a small decoder on (booking text -> account) notes. One process per GPU by mp.spawn."""
import argparse
import logging
import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@dataclass
class ModelConfig:
    vocab: int = 512
    block: int = 64
    dim: int = 160
    heads: int = 4
    layers: int = 3
    dropout: float = 0.05


def notes(n, cfg, seed):
    """Prompt: words of a booking text. Answer: the account's digits, which follow from the words."""
    rng = np.random.default_rng(seed)
    table = np.random.default_rng(123).integers(2, 12, (40, 8))
    kind = rng.integers(0, 40, n)
    prompt = rng.integers(100, cfg.vocab, (n, cfg.block - 8))
    for k in range(6):
        prompt[np.arange(n), rng.integers(0, cfg.block - 8, n)] = 20 + kind
    tokens = np.concatenate([prompt, table[kind]], 1)
    labels = tokens.copy()
    labels[:, :cfg.block - 8] = -100
    return TensorDataset(torch.from_numpy(tokens), torch.from_numpy(labels))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.n1, self.n2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.qkv, self.proj = nn.Linear(c.dim, 3 * c.dim), nn.Linear(c.dim, c.dim)
        self.mlp = nn.Sequential(nn.Linear(c.dim, 4 * c.dim), nn.GELU(), nn.Linear(4 * c.dim, c.dim), nn.Dropout(c.dropout))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class TinyDecoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.block, c.dim)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm, self.head = nn.LayerNorm(c.dim), nn.Linear(c.dim, c.vocab, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))

    def sft_loss(self, tokens, labels):
        logits = self(tokens)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


class SFTTrainer:
    def __init__(self, rank, world, args):
        self.rank, self.world, self.args = rank, world, args
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", rank) if self.cuda else torch.device("cpu")
        self.log = logging.getLogger("sft")
        cfg = ModelConfig()
        train = notes(args.notes, cfg, 0)
        self.sampler = DistributedSampler(train, world, rank, shuffle=True, drop_last=True)
        self.loader = DataLoader(train, args.batch_size, sampler=self.sampler, drop_last=True)
        self.eval_loader = DataLoader(notes(256 * world, cfg, 1), 64, sampler=DistributedSampler(range(256 * world), world, rank, shuffle=False))
        torch.manual_seed(args.seed)
        self.model = DistributedDataParallel(TinyDecoder(cfg).to(self.device), device_ids=[rank] if self.cuda else None)
        torch.manual_seed(args.seed + rank)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)

    def training_step(self, tokens, labels):
        loss = self.model.module.sft_loss(tokens, labels) / self.args.accumulate
        loss.backward()
        return loss.item() * self.args.accumulate

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        total = torch.zeros(2, device=self.device)
        for tokens, labels in self.eval_loader:
            tokens, labels = tokens.to(self.device), labels.to(self.device)
            total += torch.tensor([self.model.module.sft_loss(tokens, labels).item(), 1.0], device=self.device)
        dist.all_reduce(total)
        self.model.train()
        return (total[0] / total[1]).item()

    def train(self):
        step, micro, t0 = 0, 0, time.time()
        for epoch in range(self.args.epochs):
            self.sampler.set_epoch(epoch)
            running = 0.0
            for tokens, labels in self.loader:
                running += self.training_step(tokens.to(self.device), labels.to(self.device))
                micro += 1
                if micro % self.args.accumulate:
                    continue
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                self.opt.zero_grad(set_to_none=True)
                step += 1
                if step % 5 == 0:
                    if self.rank == 0:
                        self.log.info("epoch %d step %d loss %.4f  %.0f tok/s", epoch, step, running / 5 / self.args.accumulate,
                                      step * self.args.accumulate * self.args.batch_size * 64 * self.world / (time.time() - t0))
                    running = 0.0
            value = self.evaluate()
            if self.rank == 0:
                self.log.info("epoch %d eval loss %.4f", epoch, value)
                torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, os.path.join(self.args.out, "sft.pt"))


def worker(rank, world, args):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(args.port))
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // world))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=world)
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
    SFTTrainer(rank, world, args).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--notes", type=int, default=12000)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--port", type=int, default=29641)
    p.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "ledger_notes"))
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    n = torch.cuda.device_count() or 2
    print(f"starting {n} processes", flush=True)
    mp.spawn(worker, args=(n, args), nprocs=n)
