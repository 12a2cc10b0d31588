"""Advantage actor-critic on 16 mazes at once."""
import collections

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Mazes:
    """n mazes of 9 x 9 with walls; +1 at the exit, -0.01 a step, 80 steps at most"""

    def __init__(self, n, seed=0):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.walls = np.zeros((9, 9), bool)
        for r in (2, 6):
            self.walls[r, :] = True
            self.walls[r, self.rng.integers(9)] = False
        self.pos = np.zeros((n, 2), int)
        self.t = np.zeros(n, int)
        self.ret = np.zeros(n)
        for i in range(n):
            self._reset(i)

    def _reset(self, i):
        while True:
            p = self.rng.integers(0, 9, 2)
            if not self.walls[tuple(p)] and p[0] < 8:
                break
        self.pos[i], self.t[i], self.ret[i] = p, 0, 0.0

    def obs(self):
        o = np.zeros((self.n, 2, 9, 9), np.float32)
        o[:, 0] = self.walls
        o[np.arange(self.n), 1, self.pos[:, 0], self.pos[:, 1]] = 1
        return torch.from_numpy(o)

    def step(self, actions):
        moves = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])
        new = np.clip(self.pos + moves[actions], 0, 8)
        free = ~self.walls[new[:, 0], new[:, 1]]
        self.pos[free] = new[free]
        self.t += 1
        win = (self.pos[:, 0] == 8) & (self.pos[:, 1] == 8)
        reward = np.where(win, 1.0, -0.01)
        self.ret += reward
        done = win | (self.t >= 80)
        finished = self.ret[done].tolist()
        for i in np.flatnonzero(done):
            self._reset(i)
        return torch.tensor(reward, dtype=torch.float32), torch.tensor(done, dtype=torch.float32), finished


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 81, 128), nn.ReLU()
        )
        self.pi, self.v = nn.Linear(128, 4), nn.Linear(128, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


torch.manual_seed(4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
envs = Mazes(16, seed=4)
net = ActorCritic().to(device)
opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, eps=1e-5)
gamma, n_steps = 0.98, 8
recent = collections.deque(maxlen=100)
obs = envs.obs()
for update in range(1, 60001):
    logps, values, rewards, dones, ents = [], [], [], [], []
    for _ in range(n_steps):
        logits, value = net(obs.to(device))
        d = Categorical(logits=logits)
        action = d.sample()
        reward, done, finished = envs.step(action.cpu().numpy())
        obs = envs.obs()
        recent.extend(finished)
        logps.append(d.log_prob(action))
        values.append(value)
        ents.append(d.entropy())
        rewards.append(reward.to(device))
        dones.append(done.to(device))
    with torch.no_grad():
        ret = net(obs.to(device))[1]
    returns = []
    for r, d in zip(reversed(rewards), reversed(dones)):
        ret = r + gamma * ret * (1 - d)
        returns.insert(0, ret)
    adv = torch.stack(returns) - torch.stack(values)
    policy_loss = -(adv.detach() * torch.stack(logps)).mean()
    value_loss = adv.pow(2).mean()
    entropy = torch.stack(ents).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    if update % 50 == 0:
        mean = np.mean(recent) if recent else 0.0
        print(f"update {update} frames {update * 128} return {mean:.3f} loss {loss.item():.4f} value {value_loss.item():.4f} entropy {entropy.item():.3f}")
