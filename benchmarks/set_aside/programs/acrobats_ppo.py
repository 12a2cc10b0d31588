"""PPO for a troupe of balancing acrobats; two processes share the gradient.

    torchrun --standalone --nproc-per-node=2 acrobats_ppo.py
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributions import Normal
from torch.nn.parallel import DistributedDataParallel as DDP

TROUPE, HORIZON, EPOCHS, MINI, GAMMA, LAM, CLIP = 24, 64, 4, 4, 0.98, 0.95, 0.2


class Poles:
    def __init__(self):
        self.s = 0.1 * torch.randn(TROUPE, 4)
        self.score = torch.zeros(TROUPE)
        self.done = []

    def step(self, a):
        angle, speed, x, v = self.s.unbind(1)
        force = a[:, 0].clamp(-1, 1)
        speed = speed + 0.05 * (3 * torch.sin(angle) - 2 * force * torch.cos(angle)) + 0.02 * torch.randn(TROUPE)
        v = v + 0.05 * force
        self.s = torch.stack([angle + 0.05 * speed, speed, x + 0.05 * v, v], 1)
        self.score += 1
        fell = (self.s[:, 0].abs() > 0.5) | (self.s[:, 2].abs() > 2) | (self.score > 400)
        self.done += self.score[fell].tolist()
        self.score[fell] = 0
        self.s[fell] = 0.1 * torch.randn(int(fell.sum()), 4)
        return torch.ones(TROUPE), fell.float()


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, s):
        return self.pi(s), self.log_std.expand(len(s), 1), self.v(s)[:, 0]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    agent = DDP(Agent())
    opt = torch.optim.Adam(agent.parameters(), 3e-4)
    torch.manual_seed(10 + rank)
    env, start = Poles(), time.time()
    for it in range(1500):
        S, A, LP, R, D, V = [], [], [], [], [], []
        with torch.no_grad():
            for _ in range(HORIZON):
                mu, ls, v = agent.module(env.s)
                pi = Normal(mu, ls.exp())
                a = pi.sample()
                S.append(env.s)
                A.append(a)
                LP.append(pi.log_prob(a)[:, 0])
                V.append(v)
                r, d = env.step(a)
                R.append(r)
                D.append(d)
            last = agent.module(env.s)[2]
        adv, gae = [], torch.zeros(TROUPE)
        for t in reversed(range(HORIZON)):
            nxt = V[t + 1] if t + 1 < HORIZON else last
            gae = R[t] + GAMMA * nxt * (1 - D[t]) - V[t] + GAMMA * LAM * (1 - D[t]) * gae
            adv.insert(0, gae)
        S, A, LP, V, adv = torch.cat(S), torch.cat(A), torch.cat(LP), torch.cat(V), torch.cat(adv)
        ret, adv = adv + V, (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(EPOCHS):
            for idx in torch.randperm(len(S)).chunk(MINI):
                mu, ls, v = agent(S[idx])
                pi = Normal(mu, ls.exp())
                ratio = (pi.log_prob(A[idx])[:, 0] - LP[idx]).exp()
                surrogate = torch.minimum(ratio * adv[idx], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[idx]).mean()
                loss = -surrogate + 0.5 * (v - ret[idx]).pow(2).mean() - 0.001 * pi.entropy().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        if rank == 0 and it % 4 == 0 and env.done:
            print(f"iter {it:4d} | return {sum(env.done[-50:]) / len(env.done[-50:]):6.1f} | loss {loss.item():8.3f} | {time.time() - start:.0f}s", flush=True)


main()
