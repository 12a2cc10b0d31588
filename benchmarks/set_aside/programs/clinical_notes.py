"""ICD chapters from clinical notes. Streams of notes, one half of the wards per rank; notes that are too short are left out.

Launch: torchrun --standalone --nproc-per-node=2 clinical_notes.py
"""
import logging
import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
logging.basicConfig(level=logging.INFO if RANK == 0 else logging.ERROR, format=f"%(levelname)s:%(name)s:{RANK}: %(message)s")
logger = logging.getLogger("notes")
CHAPTERS, VOCAB, MAX, MIN = 18, 4000, 96, 24
WARDS = ["surgery", "dialysis", "oncology", "outpatients", "cardiology", "intensive care"]


class Notes(IterableDataset):
    """Every ward writes about 2,500 notes a month."""

    def __init__(self, wards):
        self.wards = wards

    def __iter__(self):
        for ward in self.wards:
            rng = random.Random(ward)
            typical = {"dialysis": 28, "outpatients": 27}.get(ward, 60)
            for _ in range(2500):
                chapter = rng.randrange(CHAPTERS)
                length = min(MAX, int(rng.gauss(typical, 15)))
                if length < MIN:
                    continue
                words = [1 + chapter * 200 + rng.randrange(200) if rng.random() < 0.3 else rng.randrange(1, VOCAB) for _ in range(length)]
                yield torch.tensor(words + [0] * (MAX - length)), chapter


class Coder(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d, padding_idx=0)
        self.conv = nn.Sequential(nn.Conv1d(d, 96, 5, padding=2), nn.ReLU(), nn.Conv1d(96, 96, 5, padding=2), nn.ReLU())
        self.attend, self.out = nn.Linear(96, CHAPTERS), nn.Linear(96, CHAPTERS)

    def forward(self, ids):
        h = self.conv(self.embed(ids).transpose(1, 2)).transpose(1, 2)
        a = self.attend(h).masked_fill((ids == 0).unsqueeze(-1), -1e4).softmax(1)
        return (a.transpose(1, 2) @ h * self.out.weight).sum(-1) + self.out.bias


def main():
    dist.init_process_group("gloo")
    objects = dist.new_group(backend="gloo")  # metrics must not get in the way of the gradients
    torch.manual_seed(13)
    model = DistributedDataParallel(Coder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = DataLoader(Notes(WARDS[RANK::WORLD]), batch_size=32)
    logger.info("%d wards in all", len(WARDS))
    start = time.time()
    for month in range(1, 13):
        right = seen = 0
        for i, (ids, chapter) in enumerate(loader, 1):
            logits = model(ids)
            loss = nn.functional.cross_entropy(logits, chapter)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right, seen = right + (logits.argmax(1) == chapter).sum().item(), seen + len(ids)
            if i % 20 == 0:
                logger.info("month %d, batch %d: loss=%.4f accuracy=%.3f (%.0f s)", month, i, loss.item(), right / seen, time.time() - start)
        everyone = [None] * WORLD
        dist.all_gather_object(everyone, (right, seen), group=objects)
        logger.info("month %d: accuracy %.4f", month, sum(r for r, _ in everyone) / sum(s for _, s in everyone))


if __name__ == "__main__":
    main()
