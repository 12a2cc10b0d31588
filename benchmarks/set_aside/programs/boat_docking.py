"""PPO (clip) for docking a boat, everything in one file in the style of cleanrl."""
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.distributions.normal import Normal


@dataclass
class Args:
    seed: int = 1
    num_envs: int = 16
    num_steps: int = 128
    total_timesteps: int = 6_000_000
    lr: float = 3e-4
    gamma: float = 0.98
    lam: float = 0.95
    minibatches: int = 8
    update_epochs: int = 6
    clip: float = 0.2
    ent_coef: float = 0.001
    vf_coef: float = 0.5


class Docks:
    """n boats at once. obs: position, velocity, current; action: thrust in 2D"""

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.pos, self.vel, self.cur = (np.zeros((n, 2), np.float32) for _ in range(3))
        self.t, self.ret = np.zeros(n, int), np.zeros(n, np.float32)
        self._reset(np.ones(n, bool))

    def _reset(self, m):
        k = m.sum()
        self.pos[m] = self.rng.uniform(-1.5, 1.5, (k, 2))
        self.vel[m] = 0
        self.cur[m] = self.rng.normal(0, 0.02, (k, 2))
        self.t[m], self.ret[m] = 0, 0

    def obs(self):
        return np.concatenate([self.pos, self.vel * 5, self.cur * 20], 1).astype(np.float32)

    def step(self, a):
        a = np.clip(a, -1, 1)
        self.vel = (0.9 * self.vel + 0.05 * a + 0.1 * self.cur).astype(np.float32)
        self.pos = self.pos + self.vel
        d = np.linalg.norm(self.pos, axis=1)
        docked = (d < 0.08) & (np.linalg.norm(self.vel, axis=1) < 0.05)
        lost = d > 3
        r = (-0.1 * d - 0.01 * (a**2).sum(1) + 5.0 * docked - 5.0 * lost).astype(np.float32)
        self.t += 1
        self.ret += r
        done = docked | lost | (self.t >= 100)
        finished = self.ret[done].copy()
        self._reset(done)
        return self.obs(), r, done.astype(np.float32), finished


def layer(i, o, std=np.sqrt(2)):
    m = nn.Linear(i, o)
    nn.init.orthogonal_(m.weight, std)
    nn.init.zeros_(m.bias)
    return m


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer(6, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(6, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 2, 0.01))
        self.logstd = nn.Parameter(torch.zeros(1, 2) - 0.5)

    def forward(self, x, a=None):
        pi = Normal(self.actor(x), self.logstd.exp().expand(len(x), 2))
        a = pi.sample() if a is None else a
        return a, pi.log_prob(a).sum(1), pi.entropy().sum(1), self.critic(x).squeeze(1)


if __name__ == "__main__":
    args = Args()
    torch.manual_seed(args.seed)
    envs, agent = Docks(args.num_envs, args.seed), Agent()
    opt = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    S, N = args.num_steps, args.num_envs
    obs, acts = torch.zeros(S, N, 6), torch.zeros(S, N, 2)
    logp, rews, dones, vals = (torch.zeros(S, N) for _ in range(4))
    o, start, returns = torch.from_numpy(envs.obs()), time.time(), []
    for update in range(1, args.total_timesteps // (S * N) + 1):
        for s in range(S):
            with torch.no_grad():
                a, lp, _, v = agent(o)
            obs[s], acts[s], logp[s], vals[s] = o, a, lp, v
            o2, r, d, finished = envs.step(a.numpy())
            rews[s], dones[s], o = torch.from_numpy(r), torch.from_numpy(d), torch.from_numpy(o2)
            returns.extend(finished.tolist())
        with torch.no_grad():
            nxt, adv, last = agent(o)[3], torch.zeros(S, N), torch.zeros(N)
            for s in reversed(range(S)):
                nv = nxt if s == S - 1 else vals[s + 1]
                delta = rews[s] + args.gamma * nv * (1 - dones[s]) - vals[s]
                last = delta + args.gamma * args.lam * (1 - dones[s]) * last
                adv[s] = last
            ret = adv + vals
        flat = [t.flatten(0, 1) for t in (obs, acts, logp, adv, ret)]
        for _ in range(args.update_epochs):
            for idx in torch.randperm(S * N).chunk(args.minibatches):
                b_o, b_a, b_lp, b_adv, b_ret = (t[idx] for t in flat)
                _, lp, ent, v = agent(b_o, b_a)
                ratio = (lp - b_lp).exp()
                b_adv = (b_adv - b_adv.mean()) / (b_adv.std() + 1e-8)
                pg = -torch.min(ratio * b_adv, ratio.clamp(1 - args.clip, 1 + args.clip) * b_adv).mean()
                vf = 0.5 * ((v - b_ret) ** 2).mean()
                loss = pg + args.vf_coef * vf - args.ent_coef * ent.mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        if update % 5 == 0:
            print(
                f"global_step={update * S * N} episodic_return={np.mean(returns[-100:]):.3f} policy_loss={pg.item():.4f} "
                f"value_loss={vf.item():.4f} entropy={ent.mean().item():.3f} SPS={int(update * S * N / (time.time() - start))}",
                flush=True,
            )
