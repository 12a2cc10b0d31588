"""DQN that learns to curl: weight and line of a stone, from a picture of the house."""
import argparse
import collections
import random
import time

import numpy as np
import torch
from torch import nn

Transition = collections.namedtuple("Transition", "s a r s2 done")


class House:
    """Four stones an end. The observation is a picture of 4 frames, as in the Atari papers."""

    size = 28

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.stones, self.target = [], self.rng.uniform(5, 23, 2)
        self.frames = collections.deque([self.draw()] * 4, maxlen=4)
        return self.observe()

    def draw(self):
        frame = np.zeros((self.size, self.size), np.float32)
        for r, c in self.stones:
            frame[int(r), int(c)] = 1.0
        frame[int(self.target[0]), int(self.target[1])] = 0.5
        return frame

    def observe(self):
        return np.stack(self.frames)

    def step(self, action):
        row, column = divmod(action, 5)
        stone = np.array([4 + 5 * row, 4 + 5 * column]) + self.rng.normal(0, 1, 2)
        self.stones.append(stone.clip(0, self.size - 1))
        self.frames.append(self.draw())
        return self.observe(), float(np.exp(-np.linalg.norm(stone - self.target) / 4)), len(self.stones) == 4


class Replay:
    def __init__(self, capacity):
        self.capacity, self.memory, self.position = capacity, [], 0

    def push(self, *transition):
        if len(self.memory) > self.capacity:
            self.memory[self.position] = Transition(*transition)
            self.position = (self.position + 1) % self.capacity
        else:
            self.memory.append(Transition(*transition))

    def sample(self, n):
        batch = random.sample(self.memory, n)
        return [torch.as_tensor(np.stack(column)) for column in zip(*batch)]


def q_network():
    return nn.Sequential(nn.Conv2d(4, 16, 5, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 128), nn.ReLU(), nn.Linear(128, 25))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--capacity", type=float, default=1e6)
    p.add_argument("--eps", type=float, default=0.1)
    p.add_argument("--seconds", type=float, default=210)
    cfg = p.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env, replay, q, target = House(rng), Replay(int(cfg.capacity)), q_network(), q_network()
    target.load_state_dict(q.state_dict())
    optim = torch.optim.Adam(q.parameters(), 5e-4)
    t0, frames, returns, total = time.time(), 0, collections.deque(maxlen=100), 0.0
    s = env.reset()
    while time.time() - t0 < cfg.seconds:
        with torch.no_grad():
            a = int(rng.integers(25)) if rng.random() < cfg.eps else q(torch.as_tensor(s)[None]).argmax().item()
        s2, r, done = env.step(a)
        replay.push(s.astype(np.float32), a, np.float32(r), s2, np.float32(done))
        total, frames = total + r, frames + 1
        s = s2
        if done:
            returns.append(total)
            s, total = env.reset(), 0.0
        if len(replay.memory) >= 256 and frames % 2 == 0:
            bs, ba, br, bs2, bdone = replay.sample(32)
            with torch.no_grad():
                goal = br + 0.9 * (1 - bdone) * target(bs2).max(1).values
            loss = nn.functional.smooth_l1_loss(q(bs).gather(1, ba[:, None]).squeeze(1), goal)
            optim.zero_grad()
            loss.backward()
            optim.step()
        if frames % 400 == 0:
            target.load_state_dict(q.state_dict())
            print(f"frame {frames:>7,}  return {np.mean(returns):.3f}  fps {frames / (time.time() - t0):.0f}", flush=True)
