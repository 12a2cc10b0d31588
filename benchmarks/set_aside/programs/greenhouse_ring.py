"""Offline-to-online: DDPG for a heated greenhouse. The replay buffer is a ring in RAM, of 40,000 pictures; then it is full."""
import time

import numpy as np
import torch
from torch import nn

CAPACITY, SHAPE, PER_ROUND = 40_000, (3, 32, 32), 160


class Ring:
    def __init__(self):
        self.obs = np.zeros((CAPACITY, *SHAPE), np.uint8)
        self.act, self.rew = np.zeros((CAPACITY, 2), np.float32), np.zeros(CAPACITY, np.float32)
        self.added = 0

    def add(self, o, a, r):
        i = np.arange(self.added, self.added + len(o)) % CAPACITY
        self.obs[i], self.act[i], self.rew[i] = o, a, r
        self.added += len(o)

    def sample(self, n, rng):
        i = rng.integers(0, min(self.added, CAPACITY), n)
        return torch.from_numpy(self.obs[i]).float() / 255, torch.from_numpy(self.act[i]), torch.from_numpy(self.rew[i])


def trunk():
    return nn.Sequential(nn.Conv2d(3, 16, 5, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 64), nn.ReLU())


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = trunk(), nn.Sequential(nn.Linear(66, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, o, a):
        return self.head(torch.cat([self.trunk(o), a], 1)).squeeze(1)


def greenhouse(n, rng):
    """A thermal picture, whose two halves want heat according to their temperatures."""
    t = rng.random((n, 2))
    o = np.repeat(t[:, :, None], 16, 2).reshape(n, 1, 1, 32) * np.ones((1, 3, 32, 1))
    return (255 * np.clip(o + 0.05 * rng.standard_normal(o.shape), 0, 1)).astype(np.uint8), 1 - 2 * t


rng = np.random.default_rng(0)
torch.manual_seed(0)
ring, critic = Ring(), Critic()
actor = nn.Sequential(trunk(), nn.Linear(64, 2), nn.Tanh())
oc, oa = torch.optim.Adam(critic.parameters(), 1e-3), torch.optim.Adam(actor.parameters(), 3e-4)
began, round_ = time.time(), 0
while time.time() - began < 210:
    o, wanted = greenhouse(PER_ROUND, rng)
    with torch.no_grad():
        a = actor(torch.from_numpy(o).float() / 255).numpy()
    a = np.clip(a + rng.normal(0, 0.3, a.shape), -1, 1).astype(np.float32)
    ring.add(o, a, -np.abs(a - wanted).mean(1))
    for _ in range(4):
        o, a, r = ring.sample(48, rng)
        lc = (critic(o, a) - r).square().mean()
        oc.zero_grad()
        lc.backward()
        oc.step()
        la = -critic(o, actor(o)).mean()
        oa.zero_grad()
        la.backward()
        oa.step()
    round_ += 1
    if round_ % 10 == 0:
        print(f"round {round_:5d}  reward {ring.rew[(ring.added - 1) % CAPACITY]:+.3f}  critic {lc.item():.4f}  actor {la.item():+.3f}  buffer {100 * min(1, ring.added / CAPACITY):.0f}%", flush=True)
