"""Advantage actor-critic: keep a small lift at the floor where it was called (vector of simulated lifts)."""
import argparse
import time
from collections import deque

import numpy as np
import torch
from torch import nn


class Lifts:
    """n lifts with mass and drag; three motor commands; the reward is minus the distance to the floor."""

    def __init__(self, n, seed=0, horizon=100):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)
        self.height = np.zeros(n)
        self.speed = np.zeros(n)
        self.target = np.zeros(n)
        self.load = np.zeros(n)
        self.clock = np.zeros(n, dtype=int)
        self.total = np.zeros(n)
        self._start(np.ones(n, dtype=bool))
        self.clock[:] = self.rng.integers(0, horizon, n)

    def _start(self, which):
        k = int(which.sum())
        self.height[which] = self.rng.uniform(-1, 1, k)
        self.speed[which] = 0
        self.target[which] = self.rng.uniform(-1, 1, k)
        self.load[which] = self.rng.uniform(-0.3, 0.3, k)
        self.clock[which] = 0
        self.total[which] = 0

    def observe(self):
        return np.stack([self.height, self.speed, self.target, self.target - self.height, self.load], 1).astype(np.float32)

    def step(self, action):
        force = (action - 1.0) * 2.0 + self.load + self.rng.normal(0, 0.2, self.n)
        self.speed = 0.95 * self.speed + 0.05 * force
        self.height = np.clip(self.height + 0.1 * self.speed, -2, 2)
        reward = -np.abs(self.target - self.height) - 0.01 * np.abs(action - 1)
        self.clock += 1
        self.total += reward
        done = self.clock >= self.horizon
        finished = self.total[done].tolist()
        if done.any():
            self._start(done)
        return self.observe(), reward, done, finished


class ActorCritic(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor = nn.Linear(hidden, 3)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--rollout", type=int, default=25)
    parser.add_argument("--updates", type=int, default=20000)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--entropy", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lifts = Lifts(args.envs)
    net = ActorCritic().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    returns = deque(maxlen=200)
    seen = torch.from_numpy(lifts.observe()).to(device)
    began = time.time()
    for update in range(1, args.updates + 1):
        logps, values, entropies, rewards, dones = [], [], [], [], []
        for _ in range(args.rollout):
            policy, value = net(seen)
            action = policy.sample()
            after, reward, done, finished = lifts.step(action.cpu().numpy())
            returns.extend(finished)
            logps.append(policy.log_prob(action))
            entropies.append(policy.entropy())
            values.append(value)
            rewards.append(torch.from_numpy(reward.astype(np.float32)).to(device))
            dones.append(torch.from_numpy(done.astype(np.float32)).to(device))
            seen = torch.from_numpy(after).to(device)
        with torch.no_grad():
            running = net(seen)[1]
        targets = []
        for reward, done in zip(reversed(rewards), reversed(dones)):
            running = reward + args.gamma * running * (1 - done)
            targets.insert(0, running)
        targets, values = torch.stack(targets), torch.stack(values)
        advantage = (targets - values).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        actor_loss = (torch.stack(logps) * advantage).mean()
        critic_loss = (targets - values).pow(2).mean()
        loss = actor_loss + 0.5 * critic_loss - args.entropy * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        if update % 20 == 0 and returns:
            print(f"update {update:5d}  frames {update * args.envs * args.rollout:8d}  episode return "
                  f"{np.mean(returns):8.2f}  actor {actor_loss.item():7.4f}  critic {critic_loss.item():7.4f}  "
                  f"entropy {torch.stack(entropies).mean().item():.3f}  {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
