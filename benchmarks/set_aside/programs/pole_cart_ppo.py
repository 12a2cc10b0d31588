"""PPO, single file, vectorized cart-pole with gusts of wind (no gym needed)."""
import argparse
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class WindyCartPole:
    def __init__(self, n, seed, max_steps=500):
        self.n, self.max_steps = n, max_steps
        self.rng = np.random.default_rng(seed)
        self.s = np.zeros((n, 4), np.float64)
        self.t = np.zeros(n, np.int64)
        self.length = np.full(n, 0.5)
        self._reset(np.ones(n, bool))

    def _reset(self, who):
        k = who.sum()
        self.s[who] = self.rng.uniform(-0.05, 0.05, (k, 4))
        self.length[who] = self.rng.uniform(0.3, 0.9, k)
        self.t[who] = 0

    def obs(self):
        return self.s.astype(np.float32)

    def step(self, a):
        x, xd, th, thd = self.s.T
        force = np.where(a == 1, 10.0, -10.0) + self.rng.normal(0, 6.0, self.n)
        ml, mt = 0.1 * self.length, 1.1
        c, s = np.cos(th), np.sin(th)
        tmp = (force + ml * thd ** 2 * s) / mt
        tha = (9.8 * s - c * tmp) / (self.length * (4 / 3 - 0.1 * c ** 2 / mt))
        xa = tmp - ml * tha * c / mt
        self.s = np.stack([x + 0.02 * xd, xd + 0.02 * xa, th + 0.02 * thd, thd + 0.02 * tha], 1)
        self.t += 1
        fell = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 0.21)
        done = fell | (self.t >= self.max_steps)
        lengths = self.t[done].copy()
        if done.any():
            self._reset(done)
        return self.obs(), np.ones(self.n, np.float32), done, lengths


class Agent(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        def mlp(o, gain):
            m = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, o))
            for layer in m:
                if isinstance(layer, nn.Linear):
                    nn.init.orthogonal_(layer.weight, 2 ** 0.5)
                    nn.init.zeros_(layer.bias)
            nn.init.orthogonal_(m[-1].weight, gain)
            return m
        self.pi, self.v = mlp(2, 0.01), mlp(1, 1.0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--updates", type=int, default=1200)
    p.add_argument("--envs", type=int, default=32)
    p.add_argument("--steps", type=int, default=128)
    p.add_argument("--minibatch", type=int, default=1024)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lr", type=float, default=2.5e-4)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, agent = WindyCartPole(args.envs, args.seed), Agent().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    recent = deque(maxlen=60)
    gamma, lam, clip = 0.99, 0.95, 0.2
    obs, start = torch.from_numpy(env.obs()).to(device), time.time()
    print(f"PPO on {device}: {args.envs} environments, {args.updates} updates", flush=True)

    for update in range(1, args.updates + 1):
        opt.param_groups[0]["lr"] = args.lr * (1 - (update - 1) / args.updates)
        O, A, LP, R, D, V = [], [], [], [], [], []
        for _ in range(args.steps):
            with torch.no_grad():
                pi = Categorical(logits=agent.pi(obs))
                a, v = pi.sample(), agent.v(obs).squeeze(-1)
            nxt, r, done, lengths = env.step(a.cpu().numpy())
            recent.extend(lengths.tolist())
            O.append(obs); A.append(a); LP.append(pi.log_prob(a)); V.append(v)
            R.append(torch.from_numpy(r).to(device)); D.append(torch.from_numpy(done.astype(np.float32)).to(device))
            obs = torch.from_numpy(nxt).to(device)
        with torch.no_grad():
            nv, adv, last = agent.v(obs).squeeze(-1), [], 0.0
            for t in reversed(range(args.steps)):
                delta = R[t] + gamma * nv * (1 - D[t]) - V[t]
                last = delta + gamma * lam * (1 - D[t]) * last
                adv.insert(0, last)
                nv = V[t]
        O, A, LP, V, adv = torch.cat(O), torch.cat(A), torch.cat(LP), torch.cat(V), torch.cat(adv)
        ret = adv + V
        for _ in range(args.epochs):
            for idx in torch.randperm(len(O), device=device).split(args.minibatch):
                pi = Categorical(logits=agent.pi(O[idx]))
                ratio = (pi.log_prob(A[idx]) - LP[idx]).exp()
                a = (adv[idx] - adv[idx].mean()) / (adv[idx].std() + 1e-8)
                pg = -torch.min(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a).mean()
                vl = 0.5 * (agent.v(O[idx]).squeeze(-1) - ret[idx]).pow(2).mean()
                loss = pg + 0.5 * vl - 0.01 * pi.entropy().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        if update % 3 == 0 and recent:
            sps = update * args.envs * args.steps / (time.time() - start)
            print(f"update {update} episodic_return {np.mean(recent):.1f} value_loss {vl.item():.3f} "
                  f"policy_loss {pg.item():+.4f} SPS {sps:.0f}", flush=True)


if __name__ == "__main__":
    main()
