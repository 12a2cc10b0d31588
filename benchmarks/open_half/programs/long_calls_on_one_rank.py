"""Emotion from speech: frames of support calls, a shard per site. One site has the long calls."""
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

try:
    from loguru import logger
except ImportError:
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)-8s | %(module)s:%(funcName)s:%(lineno)d - %(message)s")
    logger = logging.getLogger("emotion")


class Calls(Dataset):
    """A site's calls; their lengths are in a manifest."""

    def __init__(self, site, count=4000):
        g = torch.Generator().manual_seed(site)
        low, high = ((20, 40), (90, 140))[site % 2]
        self.lengths = torch.randint(low, high, (count,), generator=g)
        self.labels = torch.randint(0, 4, (count,), generator=g)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        frames = torch.randn(int(self.lengths[i]), 40)
        frames[:, int(self.labels[i])] += 0.5
        return frames, self.labels[i]


def collate(items):
    frames, labels = zip(*items)
    return pad_sequence(frames, batch_first=True), torch.stack(labels)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(40, 160, num_layers=2, batch_first=True)
        self.head = nn.Linear(160, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0].mean(1))


class Trainer:
    def __init__(self):
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model = DistributedDataParallel(Model())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.loader = DataLoader(Calls(self.rank), batch_size=8, shuffle=True, collate_fn=collate)

    def run_epoch(self, epoch):
        for step, (x, y) in enumerate(self.loader):
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % 20 == 0 and self.rank == 0:
                logger.info(f"epoch {epoch} step {step} loss {loss.item():.4f}")

    def train(self, epochs):
        for epoch in range(epochs):
            self.run_epoch(epoch)


if __name__ == "__main__":
    Trainer().train(1000)
