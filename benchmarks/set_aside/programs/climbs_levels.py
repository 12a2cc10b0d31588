"""Lava corridors: an agent that walks; whenever it succeeds in 8 of 10 games, the corridor gets longer and has more holes."""
import argparse
import time

import numpy as np
import torch
from torch import nn


class Corridors:
    """n corridors at once. The agent sees its place, the next holes, and walks or jumps."""

    def __init__(self, n, level, rng):
        self.n, self.rng = n, rng
        self.length = 6 + 3 * level
        self.holes = rng.random((n, self.length + 4)) < min(0.12 + 0.04 * level, 0.45)
        self.holes[:, :2] = self.holes[:, -5:] = False
        self.holes[:, 2:] &= ~self.holes[:, 1:-1]
        self.at, self.done = np.zeros(n, int), np.zeros(n, bool)
        self.success = np.zeros(n, bool)

    def view(self):
        ahead = np.stack([self.holes[np.arange(self.n), np.minimum(self.at + k, self.length + 3)] for k in range(1, 5)], 1)
        return torch.from_numpy(np.concatenate([ahead, (self.at / self.length)[:, None]], 1).astype(np.float32))

    def step(self, move):
        self.at = np.where(self.done, self.at, np.minimum(self.at + 1 + move, self.length + 3))
        fell = ~self.done & self.holes[np.arange(self.n), self.at]
        slipped = ~self.done & (move == 1) & (self.rng.random(self.n) < 0.05)
        out = ~self.done & ~fell & ~slipped & (self.at >= self.length)
        reward = np.where(out, 1.0, np.where(fell | slipped, -1.0, 0.0)).astype(np.float32)
        self.success |= out
        self.done |= fell | slipped | out
        return reward


def play(net, level, rng, n):
    env = Corridors(n, level, rng)
    logps, values, rewards, alive, entropy = [], [], [], [], []
    while not env.done.all():
        out = net(env.view())
        pi = torch.distributions.Categorical(logits=out[:, :2])
        move = pi.sample()
        alive.append(torch.from_numpy(~env.done).float())
        rewards.append(torch.from_numpy(env.step(move.numpy())))
        logps.append(pi.log_prob(move)), values.append(out[:, 2]), entropy.append(pi.entropy())
    g, returns = torch.zeros(n), []
    for r in reversed(rewards):
        g = r + 0.98 * g
        returns.insert(0, g)
    return torch.stack(logps), torch.stack(values), torch.stack(returns), torch.stack(alive), torch.stack(entropy), env.success.mean(), float(sum(r.sum() for r in rewards) / n)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--games", type=int, default=96)
    ap.add_argument("--seconds", type=float, default=200)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(5, 192), nn.Tanh(), nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 3))
    opt = torch.optim.Adam(net.parameters(), 4e-4)
    level, rate, score, start, it = 0, 0.0, 0.0, time.time(), 0
    while time.time() - start < args.seconds:
        logp, v, g, alive, entropy, success, total = play(net, level, rng, args.games)
        advantage = (g - v.detach()) * alive
        loss = (-(logp * advantage) + 0.5 * (g - v) ** 2 * alive - 0.01 * entropy * alive).sum() / alive.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        it += 1
        rate, score = 0.95 * rate + 0.05 * success, 0.9 * score + 0.1 * total
        if it % 10 == 0:
            print(f"iter {it:5d} level {level} return {score:+.3f} success {rate:.2f} loss {loss.item():+.3f}", flush=True)
        if rate > 0.7 and level < 10:
            level, rate = level + 1, 0.3
            print(f"*** level {level}: corridor of {6 + 3 * level}, more holes", flush=True)


if __name__ == "__main__":
    main()
