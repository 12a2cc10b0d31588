"""Sequence tagger, data parallel by hand: processes are spawned, a Strategy object synchronizes them."""
import logging
import os
from types import SimpleNamespace

import torch
import torch.distributed as td
import torch.multiprocessing as mp
from torch import nn

CFG = SimpleNamespace(world=2, vocab=400, dim=40, layers=8, tags=9, batch=16, length=20, lr=1e-3, log_every=25)


class AllReduceStrategy:
    def broadcast(self, module):
        for tensor in module.state_dict().values():
            td.broadcast(tensor, src=0)

    def sync(self, module):
        works = []
        for name, weight in module.named_parameters():
            grad = weight.grad
            if grad is not None:
                td.all_reduce(grad)
                grad.div_(td.get_world_size())


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        layer = nn.TransformerEncoderLayer(cfg.dim, 4, 2 * cfg.dim, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, cfg.layers)
        self.out = nn.Linear(cfg.dim, cfg.tags)

    def forward(self, x):
        return self.out(self.encoder(self.embed(x)))


class Engine:
    def __init__(self, rank, cfg):
        self.rank, self.cfg, self.strategy = rank, cfg, AllReduceStrategy()
        self.model = Tagger(cfg)
        self.strategy.broadcast(self.model)
        self.optim = torch.optim.Adam(self.model.parameters(), cfg.lr)
        self.log = logging.getLogger(f"engine.{rank}")

    def batches(self):
        g = torch.Generator().manual_seed(self.rank)
        while True:
            x = torch.randint(0, self.cfg.vocab, (self.cfg.batch, self.cfg.length), generator=g)
            yield x, x % self.cfg.tags

    def fit(self):
        for step, (x, y) in enumerate(self.batches()):
            self.optim.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
            loss.backward()
            self.strategy.sync(self.model)
            self.optim.step()
            if step % self.cfg.log_every == 0 and self.rank == 0:
                self.log.info("step=%d loss=%.4f", step, loss.item())


def main(rank, cfg, port):
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    td.init_process_group("gloo", rank=rank, world_size=cfg.world)
    Engine(rank, cfg).fit()


if __name__ == "__main__":
    mp.spawn(main, (CFG, int(os.environ.get("PORT", 29611))), nprocs=CFG.world)
