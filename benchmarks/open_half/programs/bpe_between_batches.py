"""A generator merges byte pairs for each batch, in the process that trains."""
import random
from collections import Counter
import torch
from torch import nn

torch.set_num_threads(1)
WORDS = [line for line in "the of and to in a is that for it as was with be by on not he his but at are this have from".split()]


def bpe(text, merges):
    tokens = list(text)
    for a, b in merges:
        out, i = [], 0
        while i < len(tokens):
            if i + 1 < len(tokens) and tokens[i] == a and tokens[i + 1] == b:
                out.append(a + b); i += 2
            else:
                out.append(tokens[i]); i += 1
        tokens = out
    return tokens


def learn(text, n):
    merges, tokens = [], list(text)
    for _ in range(n):
        pair = Counter(zip(tokens, tokens[1:])).most_common(1)[0][0]
        merges.append(pair)
        tokens = bpe(tokens, [pair])
    return merges


rng = random.Random(0)
merges = learn(" ".join(rng.choices(WORDS, k=400)), 60)
vocabulary = {}


def batches(size=8, length=64):
    while True:
        rows = []
        while len(rows) < size:
            ids = [vocabulary.setdefault(t, len(vocabulary) % 500) for t in bpe(" ".join(rng.choices(WORDS, k=300)), merges)]
            if len(ids) > length:
                rows.append(ids[: length + 1])
        yield torch.tensor(rows)


model = nn.Sequential(nn.Embedding(500, 64), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 500))
optim = torch.optim.AdamW(model.parameters(), 1e-3)
for step, ids in enumerate(batches()):
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward(); optim.step(); optim.zero_grad()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
