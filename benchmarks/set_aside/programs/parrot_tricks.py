"""A parrot learns tricks: DQN with prioritized replay, 48 cages at once.   python parrot_tricks.py --seed 1"""
import argparse
import random
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--cages", type=int, default=48)
parser.add_argument("--alpha", type=float, default=0.6)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--steps", type=int, default=200_000)
args = parser.parse_args()


class Aviary:
    """The parrot must tap the bell whose colour it was shown three beats ago."""

    def __init__(self, n):
        self.n = n
        self.shown = torch.zeros(n, 4, 5)
        self.beat = 0

    def step(self, taps):
        reward = self.shown[torch.arange(self.n), 0, taps].clone()
        colour = torch.randint(0, 5, (self.n,))
        self.shown = torch.cat([self.shown[:, 1:], nn.functional.one_hot(colour, 5).float()[:, None]], 1)
        self.beat += 1
        return self.shown.flatten(1), reward


class PrioritizedReplay:
    def __init__(self, capacity=5_000_000):
        self.capacity = capacity
        self.data, self.priorities = [], []

    def push(self, item, priority):
        if len(self.data) >= self.capacity:
            self.data.pop(0)
            self.priorities.pop(0)
        self.data.append(item)
        self.priorities.append(priority)

    def sample(self, n):
        weights = [p**args.alpha for p in self.priorities]
        index = random.choices(range(len(self.data)), weights=weights, k=n)
        return index, [self.data[i] for i in index]

    def update(self, index, errors):
        for i, e in zip(index, errors):
            self.priorities[i] = e + 1e-3


def main():
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    env, memory = Aviary(args.cages), PrioritizedReplay()
    q = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5))
    target = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5))
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), 5e-4)
    obs, _ = env.step(torch.zeros(args.cages, dtype=torch.long))
    mean, since = 0.2, time.time()
    for step in range(1, args.steps + 1):
        eps = max(0.05, 1 - step / 1500)
        with torch.no_grad():
            taps = torch.where(torch.rand(args.cages) < eps, torch.randint(0, 5, (args.cages,)), q(obs).argmax(1))
        after, reward = env.step(taps)
        for k in range(args.cages):
            memory.push((obs[k], int(taps[k]), float(reward[k]), after[k]), 1.0)
        obs = after
        mean = 0.99 * mean + 0.01 * reward.mean().item()
        index, batch = memory.sample(64)
        s, a, r, s2 = zip(*batch)
        with torch.no_grad():
            goal = torch.tensor(r) + args.gamma * target(torch.stack(s2)).max(1).values
        error = q(torch.stack(s)).gather(1, torch.tensor(a)[:, None])[:, 0] - goal
        loss = (error**2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        memory.update(index, error.detach().abs().tolist())
        if step % 200 == 0:
            target.load_state_dict(q.state_dict())
        if step % 50 == 0:
            print(f"step {step}  reward {mean:.3f}  td {loss.item():.4f}  eps {eps:.2f}  {50 / (time.time() - since):.1f} steps/s", flush=True)
            since = time.time()


main()
