"""PPO for the forklift dispatcher (aisle grid, deliver a pallet, avoid the racks)."""
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class PPOConfig:
    n_envs: int = 128
    horizon: int = 64
    grid: int = 11
    gamma: float = 0.97
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 4e-4
    ent_coef: float = 0.01
    epochs: int = 2
    minibatches: int = 4
    updates: int = 3000


class AisleEnv:
    """n independent halls, vectorised."""

    MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, cfg, seed=0):
        self.cfg, self.rng = cfg, np.random.default_rng(seed)
        g = cfg.grid
        self.rack = np.zeros((g, g), bool)
        self.rack[2::3, 1:-1] = True
        self.rack[2::3, g // 2] = False
        self.free = np.argwhere(~self.rack)
        self.pos = self._spots(cfg.n_envs)
        self.goal = self._spots(cfg.n_envs)
        self.t = np.zeros(cfg.n_envs, int)

    def _spots(self, n):
        return self.free[self.rng.integers(0, len(self.free), n)]

    def obs(self):
        g = self.cfg.grid
        around = []
        for m in self.MOVES:
            p = np.clip(self.pos + m, 0, g - 1)
            around.append(self.rack[p[:, 0], p[:, 1]])
        return np.concatenate(
            [self.pos / g, self.goal / g, (self.goal - self.pos) / g, np.stack(around, 1), np.eye(g)[self.pos[:, 0]]], 1
        ).astype(np.float32)

    def step(self, a):
        new = np.clip(self.pos + self.MOVES[a], 0, self.cfg.grid - 1)
        hit = self.rack[new[:, 0], new[:, 1]]
        new[hit] = self.pos[hit]
        before = np.abs(self.goal - self.pos).sum(1)
        self.pos = new
        after = np.abs(self.goal - self.pos).sum(1)
        there = after == 0
        reward = 10.0 * there - 0.1 - 0.5 * hit + 0.2 * (before - after)
        self.t += 1
        done = there | (self.t >= 60)
        k = int(done.sum())
        if k:
            self.pos[done], self.goal[done], self.t[done] = self._spots(k), self._spots(k), 0
        return self.obs(), reward, done


class RewardScaler:
    """Divide rewards by their standard deviation."""

    def __init__(self):
        self.rewards = []

    def __call__(self, r):
        self.rewards.extend(r.tolist())
        return r / (np.std(self.rewards) + 1e-8)


class ActorCritic(nn.Module):
    def __init__(self, n_obs):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.pi, self.v = nn.Linear(128, 4), nn.Linear(128, 1)

    def forward(self, o):
        h = self.body(o)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def train(cfg: PPOConfig):
    torch.manual_seed(0)
    env, scaler = AisleEnv(cfg), RewardScaler()
    obs = env.obs()
    net = ActorCritic(obs.shape[1])
    opt = torch.optim.Adam(net.parameters(), cfg.lr)
    ret, finished = np.zeros(cfg.n_envs), []
    print("observation", obs.shape, "parameters", sum(p.numel() for p in net.parameters()), flush=True)
    start = time.time()
    for update in range(cfg.updates):
        O, A, LP, R, D, V = [], [], [], [], [], []
        for _ in range(cfg.horizon):
            o = torch.from_numpy(obs)
            with torch.no_grad():
                dist, v = net(o)
                a = dist.sample()
            nobs, r, d = env.step(a.numpy())
            ret += r
            finished += ret[d].tolist()
            ret[d] = 0
            O.append(o), A.append(a), LP.append(dist.log_prob(a)), V.append(v)
            R.append(torch.from_numpy(scaler(r)).float()), D.append(torch.from_numpy(d).float())
            obs = nobs
        finished = finished[-400:]
        with torch.no_grad():
            nxt = net(torch.from_numpy(obs))[1]
        adv, gae = torch.zeros(cfg.horizon, cfg.n_envs), 0
        for t in reversed(range(cfg.horizon)):
            live = 1 - D[t]
            gae = R[t] + cfg.gamma * nxt * live - V[t] + cfg.gamma * cfg.lam * live * gae
            adv[t], nxt = gae, V[t]
        O, A, LP, V = torch.cat(O), torch.cat(A), torch.cat(LP), torch.cat(V)
        adv = adv.flatten()
        target = adv + V
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(cfg.epochs):
            for idx in torch.randperm(len(O)).chunk(cfg.minibatches):
                dist, v = net(O[idx])
                ratio = (dist.log_prob(A[idx]) - LP[idx]).exp()
                pg = -torch.min(ratio * adv[idx], ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv[idx]).mean()
                loss = pg + 0.5 * (v - target[idx]).pow(2).mean() - cfg.ent_coef * dist.entropy().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()
        if update % 5 == 0:
            mean = np.mean(finished) if finished else 0.0
            print(f"{time.time() - start:7.1f}s update {update:4d} ep_return {mean:7.3f} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    train(PPOConfig())
