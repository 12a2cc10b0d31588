"""Docking a boat by A2C. 64 boats at a time, numpy physics; the reward is highest at the quay."""
import argparse
import time

import numpy as np
import torch
from torch import nn


class Harbour:
    def __init__(self, n, seed, horizon=40):
        self.n, self.rng, self.horizon = n, np.random.default_rng(seed), horizon
        self.reset()

    def reset(self):
        self.p = self.rng.uniform(-2, 2, (self.n, 2))
        self.v = np.zeros((self.n, 2))
        self.t = 0
        return self.view()

    def view(self):
        return torch.from_numpy(np.concatenate([self.p, self.v], 1).astype(np.float32))

    def step(self, action):
        push = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])[action]
        self.v = 0.8 * self.v + 0.15 * push + 0.02 * self.rng.standard_normal((self.n, 2))
        self.p = np.clip(self.p + self.v, -8, 8)
        self.t += 1
        return self.view(), -np.hypot(*self.p.T).astype(np.float32) * 0.1, self.t >= self.horizon


class Agent(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 5), nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--boats", type=int, default=64)
    p.add_argument("--lr", type=float, default=5e-5)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--entropy", type=float, default=0.005)
    p.add_argument("--seconds", type=float, default=205)
    a = p.parse_args()
    torch.manual_seed(0)
    env, agent = Harbour(a.boats, 0), Agent()
    opt = torch.optim.Adam(agent.parameters(), a.lr)
    start, episode = time.time(), 0
    while time.time() - start < a.seconds:
        x, done = env.reset(), False
        logps, values, rewards, entropies = [], [], [], []
        while not done:
            pi, v = agent(x)
            act = pi.sample()
            logps.append(pi.log_prob(act))
            values.append(v)
            entropies.append(pi.entropy())
            x, r, done = env.step(act.numpy())
            rewards.append(torch.from_numpy(r))
        g, returns = torch.zeros(a.boats), []
        for r in reversed(rewards):
            g = r + a.gamma * g
            returns.insert(0, g)
        returns, values, logps = torch.stack(returns), torch.stack(values), torch.stack(logps)
        advantage = values.detach() - returns
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        loss = -(logps * advantage).mean() + 0.5 * (values - returns).pow(2).mean() - a.entropy * torch.stack(entropies).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
        episode += 1
        if episode % 2 == 0:
            print(f"episode {episode * a.boats:6d}  return {torch.stack(rewards).sum(0).mean().item():8.2f}  loss {loss.item():+.3f}  entropy {torch.stack(entropies).mean().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
