"""Paddle game. Rank 0 learns (A2C), every other rank plays and sends its rollouts.

torchrun --nproc-per-node=2 actor_learner.py
"""
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

ROWS, COLS = 12, 10
ENVS, T = 32, 20
GAMMA, ENT, LR = 0.97, 0.01, 1e-3
UPDATES = 100_000
OBS = ROWS * COLS * 2


class Catch:
    """Many boards at once: a ball falls (and drifts), the paddle moves left or right."""

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.r, self.c, self.d = np.zeros(n, int), np.zeros(n, int), np.zeros(n, int)
        self.p = np.full(n, COLS // 2)
        self.new(np.arange(n))

    def new(self, i):
        self.r[i], self.c[i] = 0, self.rng.integers(0, COLS, len(i))
        self.d[i] = self.rng.integers(-1, 2, len(i))

    def obs(self):
        o = np.zeros((self.n, 2, ROWS, COLS), np.float32)
        k = np.arange(self.n)
        o[k, 0, self.r, self.c] = 1
        o[k, 1, ROWS - 1, self.p] = 1
        return o.reshape(self.n, -1)

    def step(self, a):
        self.p = np.clip(self.p + a - 1, 0, COLS - 1)
        self.r += 1
        wind = self.rng.random(self.n) < 0.3
        self.c = np.clip(self.c + np.where(wind, self.rng.integers(-1, 2, self.n), self.d), 0, COLS - 1)
        done = self.r == ROWS - 1
        rew = np.where(done, np.where(abs(self.c - self.p) <= 0, 1.0, -1.0), 0.0)
        self.new(np.flatnonzero(done))
        return rew.astype(np.float32), done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(OBS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.pi, self.v = nn.Linear(256, 3), nn.Linear(256, 1)

    def forward(self, x):
        h = self.f(x)
        return self.pi(h), self.v(h).squeeze(-1)


def shapes():
    return [(T + 1, ENVS, OBS), (T, ENVS), (T, ENVS), (T, ENVS)]


def actor(rank, device):
    env, net = Catch(ENVS, rank), Policy().to(device)
    while True:
        flat = parameters_to_vector(net.parameters()).detach().cpu()
        dist.recv(flat, src=0)
        if torch.isnan(flat[0]):
            return
        vector_to_parameters(flat.to(device), net.parameters())
        obs, act, rew, end = (torch.zeros(s) for s in shapes())
        with torch.no_grad():
            for t in range(T):
                obs[t] = torch.from_numpy(env.obs())
                a = torch.distributions.Categorical(logits=net(obs[t].to(device))[0]).sample().cpu()
                r, d = env.step(a.numpy())
                act[t], rew[t], end[t] = a, torch.from_numpy(r), torch.from_numpy(d)
        obs[T] = torch.from_numpy(env.obs())
        for x in (obs, act, rew, end):
            dist.send(x, dst=0)


def learner(world, device):
    net = Policy().to(device)
    opt = torch.optim.RMSprop(net.parameters(), LR, alpha=0.99, eps=1e-5)
    ret, t0 = 0.0, time.time()
    for u in range(1, UPDATES + 1):
        flat = parameters_to_vector(net.parameters()).detach().cpu()
        for w in range(1, world):
            dist.send(flat, dst=w)
        for w in range(1, world):
            obs, act, rew, end = (torch.zeros(s) for s in shapes())
            for x in (obs, act, rew, end):
                dist.recv(x, src=w)
            obs, act, rew, end = obs.to(device), act.to(device), rew.to(device), end.to(device)
            logits, v = net(obs)
            R, G = v[-1].detach(), torch.zeros_like(rew)
            for t in reversed(range(T)):
                R = rew[t] + GAMMA * R * (1 - end[t])
                G[t] = R
            p = torch.distributions.Categorical(logits=logits[:-1])
            adv = G - v[:-1]
            loss = -(p.log_prob(act) * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - ENT * p.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            r = (rew.sum() / end.sum().clamp(min=1)).item()
            ret = r if u == 1 else 0.9 * ret + 0.1 * r
        if u % 50 == 0:
            print(f"update {u} return {ret:+.3f} entropy {p.entropy().mean().item():.3f} "
                  f"{u * T * ENVS * (world - 1) / (time.time() - t0):.0f} frames/s", flush=True)
    for w in range(1, world):
        dist.send(torch.full_like(flat, float("nan")), dst=w)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    dev = torch.device("cuda", rank % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")
    if rank == 0:
        learner(world, dev)
    else:
        actor(rank, dev)
    dist.destroy_process_group()
