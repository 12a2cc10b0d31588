"""Podcast ranker: users x episodes, BPR with 40 negatives per positive.

Negatives are never episodes that the user has heard (see `negatives`). Popular episodes are drawn more often, as in word2vec.
"""
import bisect
import itertools
import random
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm

USERS, EPISODES, DIM, NEGATIVES = 4000, 9000, 32, 40
random.seed(3)
torch.manual_seed(3)

taste = [random.randrange(30) for _ in range(USERS)]
by_topic = [list(range(t, EPISODES, 30)) for t in range(30)]
heard = [random.sample(by_topic[t], 180) for t in taste]
popularity = [1 / (1 + e % 97) ** 0.75 for e in range(EPISODES)]
cumulated = list(itertools.accumulate(popularity))
pairs = [(u, e) for u in range(USERS) for e in heard[u]]


def negatives(user):
    found = []
    while len(found) < NEGATIVES:
        e = bisect.bisect(cumulated, random.random() * cumulated[-1])
        if e not in heard[user] and e not in found:
            found.append(e)
    return found


def collate(batch):
    users, positives = zip(*batch)
    return torch.tensor(users), torch.tensor(positives), torch.tensor([negatives(u) for u in users])


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, DIM, sparse=True), nn.Embedding(EPISODES, DIM, sparse=True)
        self.bias = nn.Embedding(EPISODES, 1, sparse=True)
        for e in (self.user, self.item):
            nn.init.normal_(e.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, e):
        return (self.user(u).unsqueeze(1) * self.item(e)).sum(-1) + self.bias(e).squeeze(-1)


def main():
    model = Ranker()
    optimizer = torch.optim.SparseAdam(list(model.parameters()), 3e-3)
    loader = DataLoader(pairs, batch_size=512, shuffle=True, collate_fn=collate, drop_last=True)
    end = time.time() + 215
    for epoch in range(100):
        bar = tqdm(loader, desc=f"epoch {epoch}", ncols=90, mininterval=1)
        for users, positives, others in bar:
            gap = model(users, positives.unsqueeze(1)) - model(users, others)
            loss = -F.logsigmoid(gap).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bar.set_postfix(bpr=f"{loss.item():.4f}", auc=f"{(gap > 0).float().mean():.3f}")
            if time.time() > end:
                return


if __name__ == "__main__":
    main()
