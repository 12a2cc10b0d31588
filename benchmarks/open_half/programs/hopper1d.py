"""Policy gradient for a vertical hopper (own simulator, numpy). Learns to land softly."""
import argparse
import time
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

p = argparse.ArgumentParser()
p.add_argument("--envs", type=int, default=24)
p.add_argument("--horizon", type=int, default=60)
p.add_argument("--lr", type=float, default=2e-4)
p.add_argument("--gamma", type=float, default=0.98)
p.add_argument("--seconds", type=float, default=210)
cfg = p.parse_args()
torch.manual_seed(8)


class Hopper:
    """Height and speed; thrust in 3 levels. Landing fast costs, fuel costs, being down softly pays."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng

    def reset(self):
        self.h = self.rng.uniform(3, 6, self.n)
        self.v = self.rng.uniform(-1, 0.5, self.n)
        self.t = 0
        return self.obs()

    def obs(self):
        return torch.tensor(np.stack([self.h / 5, self.v / 3, np.full(self.n, self.t / cfg.horizon)], 1), dtype=torch.float32)

    def step(self, a):
        self.v = self.v + 0.1 * (np.array([0.0, 1.2, 2.6])[a] - 1.2)
        self.h = np.maximum(self.h + 0.1 * self.v * 3, 0)
        down = self.h <= 0
        reward = np.where(down, 1.0 - 2 * np.abs(self.v), -0.02 * self.h) - 0.05 * a
        self.v = np.where(down, 0, self.v)
        self.t += 1
        return self.obs(), np.clip(reward, -4, 2)


env = Hopper(cfg.envs, np.random.default_rng(8))
policy = nn.Sequential(nn.Linear(3, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 3))
value = nn.Sequential(nn.Linear(3, 128), nn.Tanh(), nn.Linear(128, 1))
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], cfg.lr)
recent, began, it = deque(maxlen=10), time.time(), 0
while time.time() - began < cfg.seconds:
    obs, logps, values, rewards, ents = env.reset(), [], [], [], []
    for _ in range(cfg.horizon):
        dist = Categorical(logits=policy(obs))
        a = dist.sample()
        logps.append(dist.log_prob(a))
        ents.append(dist.entropy())
        values.append(value(obs).squeeze(1))
        obs, r = env.step(a.numpy())
        rewards.append(torch.tensor(r, dtype=torch.float32))
    ret, returns = torch.zeros(cfg.envs), []
    for r in reversed(rewards):
        ret = r + cfg.gamma * ret
        returns.insert(0, ret)
    returns, values, logps = torch.stack(returns), torch.stack(values), torch.stack(logps)
    adv = returns - values.detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    loss = (logps * adv).mean() + 0.5 * nn.functional.mse_loss(values, returns) - 0.001 * torch.stack(ents).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 1.0)
    opt.step()
    recent.append(torch.stack(rewards).sum(0).mean().item())
    if it % 5 == 0:
        print(f"iter {it:5d}  episodes {(it + 1) * cfg.envs:6d}  return {np.mean(recent):8.2f}  entropy {torch.stack(ents).mean().item():.3f}", flush=True)
    it += 1
