"""DQN for a yard crane: carry each container to its slot with few moves. Vectorised environment of our own."""
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SLOTS, MAX_STEPS = 12, 60
ACTIONS = 4  # left, right, pick up, put down


class Yard:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.crane, self.box, self.goal = (np.zeros(n, dtype=int) for _ in range(3))
        self.held, self.t, self.ret = np.zeros(n, dtype=bool), np.zeros(n, dtype=int), np.zeros(n)
        self.reset(np.ones(n, dtype=bool))

    def reset(self, which):
        k = int(which.sum())
        self.crane[which] = self.rng.integers(0, SLOTS, k)
        self.box[which] = self.rng.integers(0, SLOTS, k)
        self.goal[which] = self.rng.integers(0, SLOTS, k)
        self.held[which], self.t[which], self.ret[which] = False, 0, 0.0

    def observe(self):
        eye = np.eye(SLOTS, dtype=np.float32)
        return np.concatenate([eye[self.crane], eye[self.box], eye[self.goal], self.held[:, None].astype(np.float32)], 1)

    def step(self, a):
        reward = np.full(self.n, -0.1, dtype=np.float32)
        self.crane = np.clip(self.crane + (a == 1) - (a == 0), 0, SLOTS - 1)
        pick = (a == 2) & ~self.held & (self.crane == self.box)
        put = (a == 3) & self.held
        self.held = (self.held | pick) & ~put
        self.box = np.where(self.held | put, self.crane, self.box)
        placed = put & (self.box == self.goal)
        reward[pick] += 0.5
        reward[put & ~placed] -= 0.7
        reward[placed] += 4.0
        self.goal = np.where(placed, self.rng.integers(0, SLOTS, self.n), self.goal)
        self.t += 1
        self.ret += reward
        over = self.t >= MAX_STEPS
        finished = self.ret[over].copy()
        after = self.observe()
        if over.any():
            self.reset(over)
        return after, reward, over, finished


class Buffer:
    def __init__(self, size, dim):
        self.s, self.s2 = np.zeros((size, dim), np.float32), np.zeros((size, dim), np.float32)
        self.a, self.r = np.zeros(size, np.int64), np.zeros(size, np.float32)
        self.size, self.n = size, 0

    def add(self, s, a, r, s2):
        at = np.arange(self.n, self.n + len(a)) % self.size
        self.s[at], self.a[at], self.r[at], self.s2[at] = s, a, r, s2
        self.n += len(a)

    def sample(self, k, rng):
        i = rng.integers(0, min(self.n, self.size), k)
        return (torch.from_numpy(v[i]) for v in (self.s, self.a, self.r, self.s2))


def q_net(dim):
    return nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, ACTIONS))


def main():
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    yard = Yard(16, rng)
    obs = yard.observe()
    buffer = Buffer(800_000, obs.shape[1])
    q, target = q_net(obs.shape[1]), q_net(obs.shape[1])
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=3e-4)
    returns, losses = deque(maxlen=100), deque(maxlen=200)
    print("crane yard, dqn", flush=True)
    start = time.time()
    for it in range(1_000_000):
        eps = max(0.05, 1.0 - it / 25_000)
        with torch.no_grad():
            a = q(torch.from_numpy(obs)).argmax(1).numpy()
        a = np.where(rng.random(yard.n) < eps, rng.integers(0, ACTIONS, yard.n), a)
        after, r, _, finished = yard.step(a)
        buffer.add(obs, a, r, after)  # the time limit is no end of the task: always bootstrap
        obs = yard.observe()
        returns.extend(finished)
        if buffer.n >= 5000:
            s, act, rew, s2 = buffer.sample(128, rng)
            with torch.no_grad():
                best = q(s2).argmax(1, keepdim=True)
                y = rew + 0.97 * target(s2).gather(1, best)[:, 0]
            loss = F.smooth_l1_loss(q(s).gather(1, act[:, None])[:, 0], y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 10.0)
            opt.step()
            losses.append(loss.item())
        if it % 500 == 0:
            target.load_state_dict(q.state_dict())
        if it % 500 == 499:
            print(
                f"it {it + 1} frames {buffer.n} eps {eps:.2f} return {np.mean(returns) if returns else 0:.2f} "
                f"loss {np.mean(losses) if losses else 0:.4f} buffer {min(buffer.n, buffer.size)} time {time.time() - start:.0f}s",
                flush=True,
            )


if __name__ == "__main__":
    main()
