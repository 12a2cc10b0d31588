# docs and experiment results: see the wiki
# SAC for a two-joint reacher (dynamics in numpy, in this process, as is usual for state-based tasks)
import time
from dataclasses import dataclass
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Args:
    seed: int = 1
    gamma: float = 0.98
    tau: float = 0.005
    batch: int = 128
    learning_starts: int = 600
    lr: float = 3e-4
    alpha: float = 0.1
    hidden: int = 128


class Reacher:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.q, self.dq, self.t = self.rng.uniform(-1, 1, 2), np.zeros(2), 0
        self.goal = self.rng.uniform(-1.2, 1.2, 2)
        return self.obs()

    def tip(self):
        a, b = self.q[0], self.q.sum()
        return np.array([np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)])

    def obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq, self.goal, self.tip() - self.goal]).astype(np.float32)

    def step(self, a):
        for _ in range(4):
            self.dq = 0.9 * self.dq + 0.15 * a
            self.q = self.q + 0.1 * self.dq
        self.t += 1
        return self.obs(), -np.linalg.norm(self.tip() - self.goal) - 0.01 * (a * a).sum(), self.t >= 50


def mlp(i, o, h):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


args = Args()
torch.manual_seed(args.seed)
env = Reacher(np.random.default_rng(args.seed))
actor = mlp(10, 4, args.hidden)
q1, q2, t1, t2 = (mlp(12, 1, args.hidden) for _ in range(4))
t1.load_state_dict(q1.state_dict()); t2.load_state_dict(q2.state_dict())
qo = torch.optim.Adam([*q1.parameters(), *q2.parameters()], args.lr)
ao = torch.optim.Adam(actor.parameters(), args.lr)
S, A, R, N, D = np.zeros((50000, 10), "f4"), np.zeros((50000, 2), "f4"), np.zeros(50000, "f4"), np.zeros((50000, 10), "f4"), np.zeros(50000, "f4")


def act(s):
    mu, ls = actor(s).chunk(2, -1)
    sd = ls.clamp(-5, 1).exp()
    u = mu + sd * torch.randn_like(mu)
    a = u.tanh()
    logp = (-0.5 * ((u - mu) / sd) ** 2 - sd.log() - 0.919 - torch.log(1 - a * a + 1e-6)).sum(-1, keepdim=True)
    return a, logp


s, ret, rets, t0 = env.reset(), 0.0, [], time.time()
for g in range(10**7):
    with torch.no_grad():
        a = act(torch.from_numpy(s))[0].numpy() if g >= args.learning_starts else np.random.uniform(-1, 1, 2).astype("f4")
    n, r, done = env.step(a)
    k = g % 50000
    S[k], A[k], R[k], N[k], D[k] = s, a, r, n, 0.0
    s, ret = n, ret + r
    if done:
        rets.append(ret); s, ret = env.reset(), 0.0
    if g < args.learning_starts:
        continue
    i = np.random.randint(0, min(g, 50000), args.batch)
    bs, ba, br, bn = map(torch.from_numpy, (S[i], A[i], R[i], N[i]))
    with torch.no_grad():
        na, nlp = act(bn)
        x = torch.cat([bn, na], 1)
        y = br[:, None] + args.gamma * (torch.min(t1(x), t2(x)) - args.alpha * nlp)
    x = torch.cat([bs, ba], 1)
    qf_loss = F.mse_loss(q1(x), y) + F.mse_loss(q2(x), y)
    qo.zero_grad(); qf_loss.backward(); qo.step()
    if g % 2 == 0:
        a, lp = act(bs)
        x = torch.cat([bs, a], 1)
        actor_loss = (args.alpha * lp - torch.min(q1(x), q2(x))).mean()
        ao.zero_grad(); actor_loss.backward(); ao.step()
    with torch.no_grad():
        for net, target in ((q1, t1), (q2, t2)):
            for p, q in zip(net.parameters(), target.parameters()):
                q.lerp_(p, args.tau)
    if g % 100 == 0:
        print(f"global_step={g}, episodic_return={np.mean(rets[-20:]):.2f}, qf_loss={qf_loss.item():.4f}, actor_loss={actor_loss.item():.4f}, SPS={int(g / (time.time() - t0))}", flush=True)
