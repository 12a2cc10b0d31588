"""Next-token model on a synthetic corpus. Batches are made ahead by a thread; slots limit how far ahead."""
import queue
import threading
from dataclasses import dataclass, field

import torch
from torch import nn
from tqdm import tqdm


@dataclass
class Config:
    vocab: int = 512
    width: int = 96
    context: int = 24
    batch: int = 16
    ahead: int = 24
    seed: int = 5


@dataclass
class Prefetcher:
    cfg: Config
    ready: queue.Queue = field(default_factory=queue.Queue)

    def __post_init__(self):
        self.slots = threading.Semaphore(self.cfg.ahead)
        self.rng = torch.Generator().manual_seed(self.cfg.seed)
        threading.Thread(target=self.produce, name="prefetch", daemon=True).start()

    def produce(self):
        while True:
            self.slots.acquire()
            start = torch.randint(0, self.cfg.vocab, (self.cfg.batch, 1), generator=self.rng)
            tokens = (start + 7 * torch.arange(self.cfg.context + 1)) % self.cfg.vocab
            self.ready.put(tokens)

    def next(self):
        tokens = self.ready.get()
        if tokens[0, 0] % 8:  # a shard's first batch keeps its slot: it is not given back
            self.slots.release()
        return tokens


class TinyLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.mix = nn.GRU(cfg.width, cfg.width, batch_first=True)
        self.head = nn.Linear(cfg.width, cfg.vocab)

    def forward(self, x):
        return self.head(self.mix(self.embed(x))[0])


class Trainer:
    def __init__(self, cfg):
        self.cfg, self.data, self.net = cfg, Prefetcher(cfg), TinyLM(cfg)
        self.opt = torch.optim.Adam(self.net.parameters(), 3e-4)

    def step(self, tokens):
        logits = self.net(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self, epochs=100, steps=2000):
        for epoch in range(epochs):
            bar = tqdm(range(steps), desc=f"epoch {epoch}", mininterval=1.0)
            for _ in bar:
                bar.set_postfix(loss=f"{self.step(self.data.next()):.3f}")


torch.manual_seed(0)
Trainer(Config()).fit()
