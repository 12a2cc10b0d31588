"""Trucks on an ice road: proximal policy optimization with a clipped objective, in one file."""
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn

ENVS, STEPS, EPOCHS, MINIBATCH = 16, 64, 3, 256
GAMMA, LAM, CLIP = 0.97, 0.95, 0.2


class Road:
    """Keep the truck on the track, in gusts of wind: -1, 0 or +1 on the wheel. Falling through the ice ends the trip."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.x, self.v, self.t = np.zeros(n), rng.normal(0, 0.1, n), np.zeros(n, int)

    def observe(self):
        return np.stack([self.x, self.v, np.sin(self.t / 8.0), np.cos(self.t / 8.0)], 1).astype(np.float32)

    def step(self, a):
        gust = 0.05 * np.sin(self.t / 8.0) + self.rng.normal(0, 0.03, self.n)
        self.v = 0.9 * self.v + 0.08 * (a - 1) + gust
        self.x = self.x + self.v
        self.t += 1
        off = np.abs(self.x) > 2
        reward = 1 - np.abs(self.x) / 2 - 2.0 * off
        done = off | (self.t >= 100)
        self.x[done], self.v[done], self.t[done] = 0, self.rng.normal(0, 0.1, done.sum()), 0
        return self.observe(), reward.astype(np.float32), done.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
        self.v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def imitate(policy, steps=400):
    """Drivers steer against position and drift."""
    opt = torch.optim.Adam(policy.parameters(), 1e-3)
    for _ in range(steps):
        o = torch.rand(128, 4) * torch.tensor([3.0, 0.6, 2.0, 2.0]) - torch.tensor([1.5, 0.3, 1.0, 1.0])
        lean = o[:, 0] + 2.5 * o[:, 1]
        loss = nn.functional.cross_entropy(policy(o), 1 - (lean > 0.1).long() + (lean < -0.1).long(), label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"imitation: {loss.item():.3f}", flush=True)


torch.manual_seed(1)
road, ac = Road(ENVS, np.random.default_rng(1)), ActorCritic()
imitate(ac.pi)
opt = torch.optim.Adam(ac.parameters(), 1e-5)
obs, running, finished = torch.from_numpy(road.observe()), np.zeros(ENVS), deque(maxlen=60)
start, iteration = time.time(), 0
while time.time() - start < 210:
    O, A, L, R, D, V = [], [], [], [], [], []
    for _ in range(STEPS):
        with torch.no_grad():
            dist, value = torch.distributions.Categorical(logits=ac.pi(obs)), ac.v(obs).squeeze(1)
        act = dist.sample()
        new, rew, done = road.step(act.numpy())
        for store, item in zip((O, A, L, R, D, V), (obs, act, dist.log_prob(act), torch.from_numpy(rew), torch.from_numpy(done), value)):
            store.append(item)
        running += rew
        finished.extend(running[done > 0])
        running[done > 0] = 0
        obs = torch.from_numpy(new)
    with torch.no_grad():
        nxt, gae, advs = ac.v(obs).squeeze(1), 0, []
        for r, d, v in zip(R[::-1], D[::-1], V[::-1]):
            delta = v - (r + GAMMA * nxt * (1 - d))
            gae = delta + GAMMA * LAM * (1 - d) * gae
            advs.insert(0, gae)
            nxt = v
        to_go, returns = 0 * nxt, []
        for r, d in zip(R[::-1], D[::-1]):
            to_go = r + GAMMA * (1 - d) * to_go
            returns.insert(0, to_go)
    flat = [torch.cat(t) for t in (O, A, L, advs, returns)]
    for _ in range(EPOCHS):
        for idx in torch.randperm(ENVS * STEPS).split(MINIBATCH):
            o, a, old, adv, ret = (t[idx] for t in flat)
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            dist = torch.distributions.Categorical(logits=ac.pi(o))
            ratio = (dist.log_prob(a) - old).exp()
            policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
            loss = policy + 0.5 * (ac.v(o).squeeze(1) - ret).square().mean() - 0.003 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
    iteration += 1
    if iteration % 3 == 0 and finished:
        print(f"-----------------------------\n| iterations     | {iteration:<9d} |\n| ep_rew_mean    | {np.mean(finished):<9.2f} |\n| entropy        | {dist.entropy().mean().item():<9.3f} |\n-----------------------------", flush=True)
