"""Policy gradient with a value baseline on the cart pole (own physics, no gym on the cluster)."""
import argparse
import math
import time

import torch
from torch import nn
from torch.distributions import Categorical

ap = argparse.ArgumentParser()
ap.add_argument("--envs", type=int, default=8)
ap.add_argument("--horizon", type=int, default=64)
ap.add_argument("--gamma", type=float, default=0.98)
ap.add_argument("--lr", type=float, default=3e-4)
args = ap.parse_args()
torch.manual_seed(5)


class Poles:
    def __init__(self, n):
        self.s = (torch.rand(n, 4) - 0.5) * 0.1
        self.t = torch.zeros(n)
        self.done_lengths = []

    def step(self, a):
        x, v, th, w = self.s.unbind(1)
        force = torch.where(a == 1, 10.0, -10.0)
        cos, sin = th.cos(), th.sin()
        tmp = (force + 0.05 * w**2 * sin) / 1.1
        acc = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        xa = tmp - 0.05 * acc * cos / 1.1
        self.s = torch.stack([x + 0.02 * v, v + 0.02 * xa, th + 0.02 * w, w + 0.02 * acc], 1)
        self.t += 1
        done = (self.s[:, 0].abs() > 2.4) | (self.s[:, 2].abs() > 12 * math.pi / 180) | (self.t >= 200)
        self.done_lengths += self.t[done].tolist()
        self.s[done] = (torch.rand(int(done.sum()), 4) - 0.5) * 0.1
        self.t[done] = 0
        return torch.ones(len(a)), done.float()


env = Poles(args.envs)
pi = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 2))
vf = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
opt = torch.optim.Adam([*pi.parameters(), *vf.parameters()], args.lr)
start, recent = time.time(), []
for update in range(1, 10**7):
    obs, acts, rews, dones = [], [], [], []
    for _ in range(args.horizon):
        with torch.no_grad():
            a = Categorical(logits=pi(env.s)).sample()
        obs.append(env.s)
        acts.append(a)
        r, d = env.step(a)
        rews.append(r)
        dones.append(d)
    with torch.no_grad():
        ret = vf(env.s)[:, 0]
        rets = []
        for r, d in zip(reversed(rews), reversed(dones)):
            ret = r + args.gamma * ret * (1 - d)
            rets.insert(0, ret)
    o, a, g = torch.cat(obs), torch.cat(acts), torch.cat(rets)
    value = vf(o)[:, 0]
    adv = g - value.detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    logp = Categorical(logits=pi(o)).log_prob(a)
    policy_loss = (logp * adv).mean()
    value_loss = (g - value).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    recent = (recent + env.done_lengths)[-100:]
    env.done_lengths = []
    if update % 5 == 0 and recent:
        print(
            f"update {update} | return {sum(recent) / len(recent):.1f} | policy loss {policy_loss.item():.4f} "
            f"| value loss {value_loss.item():.3f} | {time.time() - start:.0f} s",
            flush=True,
        )
