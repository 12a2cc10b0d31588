"""PPO on a batch of simplified landers (numpy physics)."""
import time

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

NUM_ENVS, HORIZON, UPDATES = 32, 48, 4000
EPOCHS, MINIBATCH = 6, 256
GAMMA, LAM, CLIP, ENT = 0.99, 0.95, 0.2, 0.01
LR = 3e-4
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Landers:
    def __init__(self, n, seed):
        self.rng, self.n = np.random.default_rng(seed), n
        self.s = np.zeros((n, 6))
        self.t, self.ret = np.zeros(n, int), np.zeros(n)
        self.reset(np.ones(n, bool))

    def reset(self, m):
        k = int(m.sum())
        self.s[m] = np.stack([self.rng.uniform(-1, 1, k), self.rng.uniform(1, 1.5, k), self.rng.normal(0, .3, k),
                              self.rng.normal(-.2, .1, k), self.rng.normal(0, .2, k), self.rng.normal(0, .1, k)], 1)
        self.t[m], self.ret[m] = 0, 0.0

    def step(self, a):
        x, y, vx, vy, th, om = self.s.T
        thrust, side = (a == 2) * 1.8, (a == 1) * 1.0 - (a == 3) * 1.0
        wind = self.rng.normal(0, 0.5, self.n)
        dt = 0.06
        vx = vx + dt * (-np.sin(th) * thrust + wind)
        vy = vy + dt * (np.cos(th) * thrust - 0.9)
        om = om + dt * side * 2.0
        self.s = np.stack([x + dt * vx, y + dt * vy, vx, vy, th + dt * om, om], 1)
        self.t += 1
        x, y, vx, vy, th, om = self.s.T
        down = y <= 0
        soft = down & (np.abs(vy) < .5) & (np.abs(th) < .4) & (np.abs(x) < .5)
        r = -0.02 * np.abs(x) - 0.03 * np.abs(th) - 0.02 * np.abs(vy) - 0.005 * (thrust > 0) + 5.0 * soft - 2.0 * (down & ~soft)
        out = (np.abs(x) > 2) | (y > 2.5) | (self.t >= 200)
        r = r - 2.0 * ((np.abs(x) > 2) | (y > 2.5))
        self.ret += r
        done = down | out
        finished = self.ret[done].copy()
        if done.any():
            self.reset(done)
        return self.s.copy(), r, done, finished


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(6, 192), nn.Tanh(), nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 4))
        self.v = nn.Sequential(nn.Linear(6, 192), nn.Tanh(), nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 1))

    def forward(self, x):
        return self.pi(x), self.v(x).squeeze(-1)


torch.manual_seed(2)
env, ac = Landers(NUM_ENVS, 2), ActorCritic().to(device)
opt = torch.optim.Adam(ac.parameters(), lr=LR, eps=1e-5)
obs, recent, start = env.s.copy(), [], time.time()
for update in range(1, UPDATES + 1):
    O, A, LP, R, D, V = [], [], [], [], [], []
    for _ in range(HORIZON):
        o = torch.as_tensor(obs, dtype=torch.float32, device=device)
        with torch.no_grad():
            logits, v = ac(o)
            dist = Categorical(logits=logits)
            a = dist.sample()
        obs, r, d, fin = env.step(a.cpu().numpy())
        recent = (recent + fin.tolist())[-100:]
        O.append(o); A.append(a); LP.append(dist.log_prob(a)); V.append(v)
        R.append(torch.as_tensor(r, dtype=torch.float32, device=device)); D.append(torch.as_tensor(d, dtype=torch.float32, device=device))
    with torch.no_grad():
        nxt, adv, last = ac(torch.as_tensor(obs, dtype=torch.float32, device=device))[1], [None] * HORIZON, 0.0
        for t in reversed(range(HORIZON)):
            delta = R[t] + GAMMA * nxt * (1 - D[t]) - V[t]
            last = delta + GAMMA * LAM * (1 - D[t]) * last
            adv[t], nxt = last, V[t]
    O, A, LP, V, adv = torch.cat(O), torch.cat(A), torch.cat(LP), torch.cat(V), torch.cat(adv)
    ret = adv + V
    for _ in range(EPOCHS):
        for b in torch.randperm(len(O), device=device).split(MINIBATCH):
            logits, v = ac(O[b])
            dist = Categorical(logits=logits)
            ratio = (dist.log_prob(A[b]) - LP[b]).exp()
            g = (adv[b] - adv[b].mean()) / (adv[b].std() + 1e-8)
            pg = -torch.min(ratio * g, ratio.clamp(1 - CLIP, 1 + CLIP) * g).mean()
            vf = 0.5 * (v - ret[b]).pow(2).mean()
            loss = pg + 0.5 * vf - ENT * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
    if update % 5 == 0:
        print(f"update {update:5d}  return {np.mean(recent[-30:]) if recent else float('nan'):+.2f}  vf {vf.item():.3f}  "
              f"entropy {dist.entropy().mean().item():.3f}  {update * NUM_ENVS * HORIZON / (time.time() - start):.0f} sps", flush=True)
