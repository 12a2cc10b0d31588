"""Subject classification of abstracts, LSTM + attention. Run with torchrun."""
import random
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    seed: int = 42
    subjects: int = 12
    vocab: int = 5000
    seq_len: int = 48
    emb: int = 96
    hidden: int = 128
    batch_size: int = 32
    lr: float = 1e-3
    epochs: int = 20
    log_interval: int = 20


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.emb)
        self.lstm = nn.LSTM(c.emb, c.hidden, batch_first=True, bidirectional=True)
        self.att = nn.Linear(2 * c.hidden, 1)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * c.hidden, c.subjects)

    def forward(self, x):
        h, _ = self.lstm(self.emb(x))
        w = self.att(h).softmax(1)
        return self.out(self.drop((w * h).sum(1)))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        dist.init_process_group("gloo")
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.is_main = self.rank == 0
        set_seed(cfg.seed)
        self.model = DistributedDataParallel(Classifier(cfg))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.train_loader = self.build_loader(24000, 0, shuffle=True)
        self.val_loader = self.build_loader(960, 1, shuffle=False)
        if self.is_main:
            print("config:", asdict(cfg), "world", self.world, flush=True)

    def build_loader(self, n, seed, shuffle):
        c = self.cfg
        rng = np.random.default_rng(seed)
        y = rng.integers(0, c.subjects, n)
        x = rng.integers(1500, c.vocab, (n, c.seq_len))
        topical = rng.random((n, c.seq_len)) < 0.18
        x[topical] = (y[:, None] * 100 + rng.integers(0, 140, (n, c.seq_len)))[topical]
        return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=c.batch_size, shuffle=shuffle,
                          drop_last=shuffle)

    def train_epoch(self, epoch):
        self.model.train()
        seen, t = 0, time.time()
        for i, (x, y) in enumerate(self.train_loader):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            seen += len(x)
            if i % self.cfg.log_interval == 0 and self.is_main:
                print(f"| epoch {epoch:2d} | batch {i:5d} | loss {loss.item():6.3f} | {seen / (time.time() - t):7.1f} ex/s", flush=True)

    @torch.no_grad()
    def evaluate(self, epoch):
        self.model.eval()
        good = torch.zeros(2)
        for x, y in self.val_loader:
            good += torch.tensor([(self.model(x).argmax(1) == y).sum(), len(y)])
        dist.all_reduce(good)
        if self.is_main:
            print(f"| end of epoch {epoch} | accuracy {good[0] / good[1]:.4f}", flush=True)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.train_epoch(epoch)
            self.evaluate(epoch)
        dist.destroy_process_group()


if __name__ == "__main__":
    Trainer(Config()).fit()
