"""Item embeddings from shopping lists: which groceries go together (skip-gram with negatives).

    python pantry_items.py --minutes 6
"""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def shopping_lists(n_lists, n_items, n_topics, seed):
    """Each list follows one or two recipes."""
    rng = np.random.default_rng(seed)
    topic_of = rng.integers(0, n_topics, n_items)
    members = [np.flatnonzero(topic_of == k) for k in range(n_topics)]
    lists = []
    for _ in range(n_lists):
        chosen = rng.choice(n_topics, rng.integers(1, 3), replace=False)
        pool = np.concatenate([members[k] for k in chosen])
        lists.append(rng.choice(pool, min(len(pool), rng.integers(4, 10)), replace=False))
    return lists, topic_of


class PairSampler:
    """Draws pairs from one list as positives, and items that were not seen beside the first one as negatives."""

    def __init__(self, lists, n_items, negatives, seed):
        self.lists = lists
        self.n_items, self.negatives = n_items, negatives
        self.random = random.Random(seed)
        self.together = []

    def batch(self, size):
        left, right, wrong = [], [], []
        for _ in range(size):
            basket = self.random.choice(self.lists)
            a, b = (int(v) for v in self.random.sample(list(basket), 2))
            self.together.append((a, b))
            left.append(a)
            right.append(b)
        for a in left:
            drawn = []
            while len(drawn) < self.negatives:
                c = self.random.randrange(self.n_items)
                if (a, c) not in self.together:
                    drawn.append(c)
            wrong.append(drawn)
        return torch.tensor(left), torch.tensor(right), torch.tensor(wrong)


class SkipGram(nn.Module):
    def __init__(self, n_items, dim):
        super().__init__()
        self.inside = nn.Embedding(n_items, dim)
        self.outside = nn.Embedding(n_items, dim)
        nn.init.uniform_(self.inside.weight, -0.4, 0.4)
        nn.init.uniform_(self.outside.weight, -0.4, 0.4)
        self.mix = nn.Sequential(nn.Linear(dim, 512), nn.GELU(), nn.Linear(512, dim))

    def forward(self, left, right, wrong):
        e = self.inside(left)
        e = e + self.mix(e)
        pos = (e * self.outside(right)).sum(-1)
        neg = torch.einsum("bd,bnd->bn", e, self.outside(wrong))
        return -(F.logsigmoid(pos) + F.logsigmoid(-neg).mean(-1)).mean()


@torch.no_grad()
def neighbours_agree(model, topic_of, k=5):
    e = F.normalize(model.inside.weight + model.mix(model.inside.weight), dim=-1)
    near = (e @ e.T).fill_diagonal_(-1).topk(k, dim=1).indices
    topics = torch.from_numpy(topic_of)
    return (topics[near] == topics[:, None]).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lists", type=int, default=20000)
    p.add_argument("--items", type=int, default=600)
    p.add_argument("--topics", type=int, default=24)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--negatives", type=int, default=4)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--minutes", type=float, default=6)
    args = p.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lists, topic_of = shopping_lists(args.lists, args.items, args.topics, seed=2)
    sampler = PairSampler(lists, args.items, args.negatives, seed=2)
    model = SkipGram(args.items, args.dim).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    print(f"{args.lists} lists, {args.items} items, batches of {args.batch_size} pairs, on {device}", flush=True)

    begin = mark = time.time()
    step, mean = 0, None
    while time.time() - begin < 60 * args.minutes:
        left, right, wrong = sampler.batch(args.batch_size)
        loss = model(left.to(device), right.to(device), wrong.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 25 == 0:
            now = time.time()
            print(f"step {step} loss {mean:.4f} {25 / (now - mark):.1f} it/s", flush=True)
            mark = now
        if step % 500 == 0:
            print(f"step {step} nearest items of the same recipe: {neighbours_agree(model, topic_of):.3f}", flush=True)
            mark = time.time()


if __name__ == "__main__":
    main()
