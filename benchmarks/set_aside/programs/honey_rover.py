"""PPO for a rover that collects honey in a meadow; bees come and go, so the returns are very noisy."""
import argparse
import time
from collections import deque

import numpy as np
import torch
from torch import nn

SIZE = 7


class Meadow:
    def __init__(self, n, seed=0, horizon=40):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)
        self.place = self.rng.integers(0, SIZE, (n, 2))
        self.hive = self.rng.integers(0, SIZE, (n, 2))
        self.honey = self.rng.exponential(1.0, n)
        self.clock = self.rng.integers(0, horizon, n)
        self.total = np.zeros(n)

    def observe(self):
        rows = np.zeros((self.n, 2 * SIZE * 2 + 2), dtype=np.float32)
        index = np.arange(self.n)
        for k, where in enumerate((self.place, self.hive)):
            rows[index, k * 2 * SIZE + where[:, 0]] = 1
            rows[index, k * 2 * SIZE + SIZE + where[:, 1]] = 1
        rows[:, -2:] = (self.hive - self.place) / SIZE
        return rows

    def step(self, action):
        moves = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
        slip = self.rng.random(self.n) < 0.1
        action = np.where(slip, self.rng.integers(0, 5, self.n), action)
        self.place = np.clip(self.place + moves[action], 0, SIZE - 1)
        there = (self.place == self.hive).all(1)
        reward = np.where(there, self.honey * 3, 0) - 0.05
        reward -= np.where(self.rng.random(self.n) < 0.02, 4.0, 0.0)   # stung
        k = int(there.sum())
        self.hive[there] = self.rng.integers(0, SIZE, (k, 2))
        self.honey[there] = self.rng.exponential(1.0, k)
        self.clock += 1
        self.total += reward
        done = self.clock >= self.horizon
        finished = self.total[done].tolist()
        self.total[done], self.clock[done] = 0, 0
        self.place[done] = self.rng.integers(0, SIZE, (int(done.sum()), 2))
        return self.observe(), reward.astype(np.float32), done.astype(np.float32), finished


class Policy(nn.Module):
    def __init__(self, inputs, hidden=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor, self.critic = nn.Linear(hidden, 5), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def advantages(rewards, values, dones, last, gamma, lam):
    out, carry, after = np.zeros_like(rewards), 0.0, last
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * after * (1 - dones[t]) - values[t]
        carry = delta + gamma * lam * (1 - dones[t]) * carry
        out[t], after = carry, values[t]
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--rollout", type=int, default=64)
    parser.add_argument("--updates", type=int, default=8000)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    meadow = Meadow(args.envs)
    net = Policy(meadow.observe().shape[1]).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    returns, long_run = deque(maxlen=8), deque(maxlen=500)
    obs, began = meadow.observe(), time.time()
    for update in range(1, args.updates + 1):
        buffer = {k: [] for k in ("obs", "action", "logp", "value", "reward", "done")}
        for _ in range(args.rollout):
            with torch.no_grad():
                policy, value = net(torch.from_numpy(obs).to(device))
                action = policy.sample()
            after, reward, done, finished = meadow.step(action.cpu().numpy())
            for k, v in zip(buffer, (obs, action.cpu().numpy(), policy.log_prob(action).cpu().numpy(),
                                     value.cpu().numpy(), reward, done)):
                buffer[k].append(v)
            returns.extend(finished)
            long_run.extend(finished)
            obs = after
        data = {k: np.stack(v) for k, v in buffer.items()}
        with torch.no_grad():
            last = net(torch.from_numpy(obs).to(device))[1].cpu().numpy()
        adv = advantages(data["reward"], data["value"], data["done"], last, 0.97, 0.95)
        target = adv + data["value"]
        flat = [torch.from_numpy(a.reshape(-1, *a.shape[2:])).to(device)
                for a in (data["obs"], data["action"], data["logp"], adv, target)]
        for _ in range(4):
            for part in torch.randperm(len(flat[0])).split(256):
                o, a, old, d, g = (t[part] for t in flat)
                policy, value = net(o)
                ratio = (policy.log_prob(a) - old).exp()
                d = (d - d.mean()) / (d.std() + 1e-6)
                actor = -torch.min(ratio * d, ratio.clamp(0.8, 1.2) * d).mean()
                loss = actor + 0.5 * (g - value).pow(2).mean() - 0.01 * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
        if update % 5 == 0 and returns:
            print(f"update {update} return of 8 episodes {np.mean(returns):7.2f} (500: {np.mean(long_run):6.2f}) "
                  f"actor {actor.item():+.4f} loss {loss.item():.3f} {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
