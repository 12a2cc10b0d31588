# Continual pretraining of a headline encoder on a stream of agency news. Agencies repeat each other, so near-duplicates are skipped.
import json
import random
import sys
import time

import torch
from torch import nn

VOCAB, LENGTH, DIM = 1200, 16, 96
random.seed(11)
torch.manual_seed(11)


def stream():
    """Headlines, of which a fifth repeats an older one with a word changed."""
    old = []
    while True:
        if old and random.random() < 0.2:
            line = list(random.choice(old))
            line[random.randrange(LENGTH)] = random.randrange(1, VOCAB)
        else:
            topic = random.randrange(29)
            line = [1 + topic * 40 + random.randrange(40) if random.random() < 0.6 else random.randrange(1, VOCAB) for _ in range(LENGTH)]
        old.append(line)
        del old[:-500]
        yield line


class Deduplicator:
    def __init__(self, threshold=0.8):
        self.kept, self.threshold = [], threshold

    def is_new(self, line):
        words = set(line)
        for other in self.kept:
            if len(words & other) / len(words | other) > self.threshold:
                return False
        self.kept.append(words)
        return True


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, DIM)
        layer = nn.TransformerEncoderLayer(DIM, 4, 2 * DIM, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        return self.out(self.body(self.emb(ids)))


model, dedupe = Encoder(), Deduplicator()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
source, batch, step = stream(), [], 0
start = mark = time.time()
while time.time() - start < 215:
    while len(batch) < 24:
        line = next(source)
        if dedupe.is_new(line):
            batch.append(line)
    ids = torch.tensor(batch)
    batch = []
    mask = torch.rand(ids.shape) < 0.2
    loss = nn.functional.cross_entropy(model(ids.masked_fill(mask, VOCAB))[mask], ids[mask])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 10 == 0:
        now = time.time()
        json.dump({"step": step, "mlm": round(loss.item(), 4), "headlines_per_s": round(240 / (now - mark), 1), "kept": len(dedupe.kept)}, sys.stdout)
        print(flush=True)
        mark = now
