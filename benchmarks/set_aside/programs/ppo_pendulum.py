"""PPO on a vectorised pendulum swing-up written in numpy. Returns are between about -1600 and -150."""
import time
from collections import deque
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal

N_ENVS, HORIZON, EP_LEN = 32, 100, 200
GAMMA, LAM, CLIP, ENT, VF = 0.95, 0.95, 0.2, 0.003, 0.5
EPOCHS, MINIBATCH, LR, UPDATES = 6, 256, 3e-4, 3000
device = "cuda" if torch.cuda.is_available() else "cpu"


class VecPendulum:
    def __init__(self, n, seed=0):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.th, self.om, self.t, self.ret = (np.zeros(n) for _ in range(4))
        self.reset(np.ones(n, bool))
        self.t = self.rng.integers(0, EP_LEN, n).astype(float)

    def reset(self, m):
        k = m.sum()
        self.th[m], self.om[m] = self.rng.uniform(-np.pi, np.pi, k), self.rng.uniform(-1, 1, k)
        self.t[m], self.ret[m] = 0, 0

    def obs(self):
        return np.stack([np.cos(self.th), np.sin(self.th), self.om / 4], 1).astype(np.float32)

    def step(self, u):
        u = np.clip(u, -2, 2)
        ang = (self.th + np.pi) % (2 * np.pi) - np.pi
        r = -(ang ** 2 + 0.1 * self.om ** 2 + 0.001 * u ** 2)
        self.om = np.clip(self.om + (15 * np.sin(self.th) + 3 * u) * 0.05, -8, 8)
        self.th = self.th + self.om * 0.05
        self.t += 1
        self.ret += r
        done = self.t >= EP_LEN
        rets = self.ret[done].tolist()
        if done.any():
            self.reset(done)
        return self.obs(), r.astype(np.float32), done, rets


class ActorCritic(nn.Module):
    def __init__(self, h=128):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(3, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        self.v = nn.Sequential(nn.Linear(3, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def dist(self, o):
        return Normal(2 * torch.tanh(self.pi(o)).squeeze(-1), self.log_std.exp())

    def value(self, o):
        return self.v(o).squeeze(-1)


torch.manual_seed(0)
env = VecPendulum(N_ENVS)
ac = ActorCritic().to(device)
opt = torch.optim.Adam(ac.parameters(), lr=LR, eps=1e-5)
recent = deque(maxlen=64)
o = env.obs()
t0, frames = time.time(), 0
print(f"PPO: {N_ENVS} envs x {HORIZON} steps, {EPOCHS} epochs, device {device}", flush=True)
for up in range(1, UPDATES + 1):
    O, A, LP, R, V, Dn = [], [], [], [], [], []
    with torch.no_grad():
        for _ in range(HORIZON):
            ot = torch.from_numpy(o).to(device)
            dist = ac.dist(ot)
            a = dist.sample()
            O.append(ot); A.append(a); LP.append(dist.log_prob(a)); V.append(ac.value(ot))
            o, r, d, rets = env.step(a.cpu().numpy())
            recent.extend(rets)
            R.append(torch.from_numpy(r / 8).to(device)); Dn.append(torch.from_numpy(d).float().to(device))
        last = ac.value(torch.from_numpy(o).to(device))
    frames += N_ENVS * HORIZON
    O, A, LP, R, V, Dn = map(torch.stack, (O, A, LP, R, V, Dn))
    adv, g = torch.zeros_like(R), torch.zeros(N_ENVS, device=device)
    for t in reversed(range(HORIZON)):
        nv = last if t == HORIZON - 1 else V[t + 1]
        delta = R[t] + GAMMA * nv * (1 - Dn[t]) - V[t]
        g = delta + GAMMA * LAM * (1 - Dn[t]) * g
        adv[t] = g
    ret = (adv + V).flatten()
    O, A, LP, adv = O.flatten(0, 1), A.flatten(), LP.flatten(), adv.flatten()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    kl = 0.0
    for _ in range(EPOCHS):
        for idx in torch.randperm(len(A)).split(MINIBATCH):
            dist = ac.dist(O[idx])
            ratio = (dist.log_prob(A[idx]) - LP[idx]).exp()
            pg = -torch.min(ratio * adv[idx], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[idx]).mean()
            vl = (ac.value(O[idx]) - ret[idx]).pow(2).mean()
            loss = pg + VF * vl - ENT * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
            kl = 0.9 * kl + 0.1 * (ratio - 1 - ratio.log()).mean().item()
    if recent:
        m = np.mean(recent)
        print(f"update {up:4d} frames {frames:7d} return {m:8.1f} v_loss {vl.item():.3f} pi_loss {pg.item():+.4f} "
              f"kl {kl:.4f} std {ac.log_std.exp().item():.2f} fps {frames / (time.time() - t0):.0f}", flush=True)
