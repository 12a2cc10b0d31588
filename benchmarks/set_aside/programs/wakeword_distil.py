"""Wake word model for the small device: first the large teacher, then the student on the teacher's outputs.

torchrun --nproc-per-node=2 wakeword_distil.py
"""
import argparse
import json
import logging
import os
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
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

log = logging.getLogger("distil")


@dataclass
class Phase:
    name: str
    epochs: int
    lr: float
    warmup: int


TEACHER = Phase("teacher", 3, 1e-3, 20)
STUDENT = Phase("student", 90, 2e-3, 120)


def clips(n, seed, words=20, mels=32, frames=48):
    proto = np.random.default_rng(1).normal(0, 1, (words, mels, 8)).astype(np.float32).repeat(4, 2)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, words, n)
    x = rng.normal(0, 1.5, (n, mels, frames)).astype(np.float32)
    for i in range(n):
        at = rng.integers(0, frames - 32)
        x[i, :, at:at + 32] += rng.uniform(0.35, 0.9) * proto[y[i]]
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class ConvNet(nn.Module):
    def __init__(self, width, depth, words=20, mels=32, dropout=0.1):
        super().__init__()
        layers = [nn.Conv1d(mels, width, 5, padding=2), nn.GroupNorm(4, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Conv1d(width, width, 5, padding=2), nn.GroupNorm(4, width), nn.ReLU(), nn.Dropout(dropout)]
        self.body, self.fc = nn.Sequential(*layers), nn.Linear(width, words)

    def forward(self, x):
        return self.fc(self.body(x).mean(2))


class Job:
    def __init__(self, args):
        self.local_rank, self.cuda = int(os.environ["LOCAL_RANK"]), torch.cuda.is_available()
        dist.init_process_group("nccl" if self.cuda else "gloo")
        self.rank = dist.get_rank()
        self.device = torch.device("cuda", self.local_rank) if self.cuda else torch.device("cpu")
        self.main = self.rank == 0
        logging.basicConfig(level=logging.INFO if self.main else logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        self.args = args
        train, val = clips(args.clips, 2), clips(800, 3)
        self.sampler = DistributedSampler(train, shuffle=True, drop_last=True)
        self.loader = DataLoader(train, args.batch_size, sampler=self.sampler, drop_last=True)
        self.val_loader = DataLoader(val, 100, sampler=DistributedSampler(val, shuffle=False))
        self.out = Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.metrics = open(self.out / "metrics.jsonl", "w") if self.main else None

    def wrap(self, model):
        return DDP(model.to(self.device), device_ids=[self.local_rank] if self.cuda else None)

    @torch.no_grad()
    def accuracy(self, model):
        model.eval()
        hits = torch.zeros(2, device=self.device)
        for x, y in self.val_loader:
            hits += torch.tensor([(model.module(x.to(self.device)).argmax(1).cpu() == y).sum(), len(y)], device=self.device)
        dist.all_reduce(hits)
        model.train()
        return (hits[0] / hits[1]).item()

    def train(self, model, phase, loss_fn):
        opt = torch.optim.AdamW(model.parameters(), lr=phase.lr, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / phase.warmup))
        step = 0
        model.train()
        for epoch in range(phase.epochs):
            self.sampler.set_epoch(epoch)
            t0 = time.time()
            for x, y in self.loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = loss_fn(model(x), x, y)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                sched.step()
                step += 1
                if step % 10 == 0:
                    log.info("%s epoch %d step %d loss %.4f lr %.2e", phase.name, epoch, step, loss.item(), sched.get_last_lr()[0])
            acc = self.accuracy(model)
            log.info("%s epoch %d accuracy %.3f in %.1f s", phase.name, epoch, acc, time.time() - t0)
            if self.main:
                self.metrics.write(json.dumps({"phase": phase.name, "epoch": epoch, "accuracy": acc, "loss": loss.item()}) + "\n")
                self.metrics.flush()
                torch.save(model.module.state_dict(), self.out / f"{phase.name}.pt")
            dist.barrier()

    def run(self):
        torch.manual_seed(0)
        teacher = self.wrap(ConvNet(128, 4, dropout=0.2))
        self.train(teacher, TEACHER, lambda logits, x, y: F.cross_entropy(logits, y))

        frozen = ConvNet(128, 4)
        frozen.load_state_dict(torch.load(self.out / "teacher.pt", map_location="cpu"))
        frozen.to(self.device).requires_grad_(False).eval()
        t = self.args.temperature

        def distil(logits, x, y):
            with torch.no_grad():
                soft = F.softmax(frozen(x) / t, 1)
            kl = F.kl_div(F.log_softmax(logits / t, 1), soft, reduction="batchmean") * t * t
            return 0.7 * kl + 0.3 * F.cross_entropy(logits, y)

        student = self.wrap(ConvNet(64, 3, dropout=0.0))
        self.train(student, STUDENT, distil)
        dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--clips", type=int, default=8000)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--temperature", type=float, default=3.0)
    p.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "wakeword_distil"))
    Job(p.parse_args()).run()
