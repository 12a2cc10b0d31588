"""Double DQN with prioritized replay on a batch of small grid worlds."""
import argparse
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn


class GridWorlds:
    """n independent 9x9 mazes with a goal and pits; observation: 3 planes."""

    def __init__(self, n, size=9, seed=0):
        self.n, self.size = n, size
        self.rng = np.random.default_rng(seed)
        self.agent = np.zeros((n, 2), int)
        self.goal = np.zeros((n, 2), int)
        self.pits = np.zeros((n, size, size), bool)
        self.t = np.zeros(n, int)
        self.ret = np.zeros(n)
        self.reset(np.arange(n))

    def reset(self, ids):
        for i in ids:
            self.pits[i] = self.rng.random((self.size, self.size)) < 0.08
            self.agent[i], self.goal[i] = self.rng.integers(0, self.size, 2), self.rng.integers(0, self.size, 2)
            self.pits[i, self.agent[i][0], self.agent[i][1]] = False
            self.pits[i, self.goal[i][0], self.goal[i][1]] = False
            self.t[i], self.ret[i] = 0, 0.0

    def obs(self):
        o = np.zeros((self.n, 3, self.size, self.size), np.uint8)
        r = np.arange(self.n)
        o[r, 0, self.agent[:, 0], self.agent[:, 1]] = 1
        o[r, 1, self.goal[:, 0], self.goal[:, 1]] = 1
        o[:, 2] = self.pits
        return o

    def step(self, a):
        d = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])[a]
        self.agent = np.clip(self.agent + d, 0, self.size - 1)
        r = np.arange(self.n)
        win = (self.agent == self.goal).all(1)
        fall = self.pits[r, self.agent[:, 0], self.agent[:, 1]]
        self.t += 1
        rew = win * 1.0 - fall * 1.0 - 0.01
        self.ret += rew
        done = win | fall | (self.t >= 50)
        return rew.astype(np.float32), done


class PrioritizedReplay:
    def __init__(self, capacity, alpha=0.6, beta=0.4):
        self.capacity, self.alpha, self.beta = capacity, alpha, beta
        self.memory = []
        self.priorities = []
        self.pos = 0

    def push(self, *transition):
        p = max(self.priorities) if self.priorities else 1.0
        if len(self.memory) < self.capacity:
            self.memory.append(transition)
            self.priorities.append(p)
        else:
            self.memory[self.pos] = transition
            self.priorities[self.pos] = p
        self.pos = (self.pos + 1) % self.capacity

    def sample(self, k):
        probs = np.array(self.priorities) ** self.alpha
        probs /= probs.sum()
        idx = np.random.choice(len(self.memory), k, p=probs)
        w = (len(self.memory) * probs[idx]) ** (-self.beta)
        s, a, r, s2, d = zip(*[self.memory[i] for i in idx])
        return idx, (w / w.max()).astype(np.float32), np.stack(s), np.array(a), np.array(r, np.float32), np.stack(s2), np.array(d, np.float32)

    def update(self, idx, td):
        for i, e in zip(idx, td):
            self.priorities[i] = float(abs(e)) + 1e-5


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Flatten())
        self.v = nn.Sequential(nn.Linear(24 * 81, 96), nn.ReLU(), nn.Linear(96, 1))
        self.a = nn.Sequential(nn.Linear(24 * 81, 96), nn.ReLU(), nn.Linear(96, 4))

    def forward(self, x):
        h = self.net(x)
        a = self.a(h)
        return self.v(h) + a - a.mean(1, keepdim=True)


ap = argparse.ArgumentParser()
ap.add_argument("--envs", type=int, default=32)
ap.add_argument("--iterations", type=int, default=100000)
ap.add_argument("--capacity", type=int, default=1_000_000)
ap.add_argument("--batch", type=int, default=96)
ap.add_argument("--gamma", type=float, default=0.97)
ap.add_argument("--target-every", type=int, default=200)
ap.add_argument("--log-every", type=int, default=100)
cfg = ap.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
np.random.seed(0)
torch.manual_seed(0)

env = GridWorlds(cfg.envs)
q, target = QNet().to(device), QNet().to(device)
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=5e-4)
replay = PrioritizedReplay(cfg.capacity)
returns = deque(maxlen=200)
print("config:", vars(cfg), flush=True)
obs, t_last, loss = env.obs(), time.perf_counter(), torch.tensor(0.0)
for it in range(1, cfg.iterations + 1):
    eps = max(0.05, 1.0 - it / 2000)
    with torch.no_grad():
        act = q(torch.as_tensor(obs, device=device).float()).argmax(1).cpu().numpy()
    rnd = np.random.rand(cfg.envs) < eps
    act[rnd] = np.random.randint(0, 4, rnd.sum())
    rew, done = env.step(act)
    nxt = env.obs()
    for j in range(cfg.envs):
        replay.push(obs[j], act[j], rew[j], nxt[j], done[j])
    if done.any():
        returns.extend(env.ret[done])
        env.reset(np.flatnonzero(done))
        nxt = env.obs()
    obs = nxt
    if len(replay.memory) >= 1000:
        idx, w, s, a, r, s2, d = replay.sample(cfg.batch)
        s, s2 = torch.as_tensor(s, device=device).float(), torch.as_tensor(s2, device=device).float()
        a, r, d, w = (torch.as_tensor(v, device=device) for v in (a, r, d, w))
        with torch.no_grad():
            best = q(s2).argmax(1, keepdim=True)
            tgt = r + cfg.gamma * (1 - d) * target(s2).gather(1, best).squeeze(1)
        td = q(s).gather(1, a[:, None]).squeeze(1) - tgt
        loss = (w * td.pow(2)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        replay.update(idx, td.detach().cpu().numpy())
    if it % cfg.target_every == 0:
        target.load_state_dict(q.state_dict())
    if it % cfg.log_every == 0:
        now = time.perf_counter()
        print(f"it {it:6d} | frames {it * cfg.envs:8d} | eps {eps:.2f} | loss {loss.item():.4f} | "
              f"return {np.mean(returns) if returns else 0:.3f} | {cfg.log_every * cfg.envs / (now - t_last):.0f} fps", flush=True)
        t_last = now
