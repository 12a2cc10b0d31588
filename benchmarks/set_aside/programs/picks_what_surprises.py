"""DQN on a grid with doors, with prioritized replay (proportional)."""
import argparse
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--envs", type=int, default=64)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--alpha", type=float, default=0.6)
p.add_argument("--buffer", type=int, default=1_000_000)
args = p.parse_args()
random.seed(0)
torch.manual_seed(0)
N = 9
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Replay:
    def __init__(self, size):
        self.size, self.items, self.prios = size, [], []

    def add(self, item):
        if len(self.items) == self.size:
            self.items.pop(0)
            self.prios.pop(0)
        self.items.append(item)
        self.prios.append(max(self.prios[-100:], default=1.0))

    def sample(self, k):
        total = sum(self.prios)
        picked = []
        for _ in range(k):
            u, i = random.random() * total, 0
            while u > self.prios[i] and i < len(self.prios) - 1:
                u -= self.prios[i]
                i += 1
            picked.append(i)
        return picked

    def update(self, picked, errors):
        for i, e in zip(picked, errors):
            self.prios[i] = (e + 1e-3) ** args.alpha


def observe(pos, goal):
    x = torch.zeros(len(pos), 2, N, N)
    i = torch.arange(len(pos))
    x[i, 0, pos[:, 0], pos[:, 1]] = 1
    x[i, 1, goal[:, 0], goal[:, 1]] = 1
    return x


def make():
    return nn.Sequential(nn.Conv2d(2, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24 * N * N, 128), nn.ReLU(), nn.Linear(128, 4))


q, target = make(), make()
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), 5e-4)
buf = Replay(args.buffer)
pos, goal = torch.randint(0, N, (args.envs, 2)), torch.randint(0, N, (args.envs, 2))
reached, t0, last = 0, time.time(), 0
for it in range(1, 10**7):
    eps = max(0.05, 1 - it / 1000)
    s = observe(pos, goal)
    with torch.no_grad():
        a = q(s).argmax(1)
    a = torch.where(torch.rand(args.envs) < eps, torch.randint(0, 4, (args.envs,)), a)
    pos = (pos + MOVES[a]).clamp(0, N - 1)
    s2 = observe(pos, goal)
    hit = (pos == goal).all(1)
    reached += int(hit.sum())
    for i in range(args.envs):
        buf.add((s[i], a[i], hit[i].float() - 0.01, s2[i], hit[i].float()))
    goal[hit] = torch.randint(0, N, (int(hit.sum()), 2))
    idx = buf.sample(args.batch)
    bs, ba, br, bs2, bd = (torch.stack(z) for z in zip(*(buf.items[i] for i in idx)))
    with torch.no_grad():
        y = br + 0.97 * (1 - bd) * target(bs2).max(1).values
    td = q(bs).gather(1, ba[:, None])[:, 0] - y
    loss = F.smooth_l1_loss(td, torch.zeros_like(td))
    opt.zero_grad()
    loss.backward()
    opt.step()
    buf.update(idx, td.detach().abs().tolist())
    if it % 100 == 0:
        target.load_state_dict(q.state_dict())
    if it % 20 == 0:
        now = time.time()
        print(f"it {it} loss {loss.item():.5f} goals {reached} buffer {len(buf.items)} fps {args.envs * 20 / (now - t0):.0f}", flush=True)
        t0, reached = now, 0
