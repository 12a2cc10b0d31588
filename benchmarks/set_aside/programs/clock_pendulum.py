# TD3 swings up a pendulum (homework 3, deep RL)
# No gym on the cluster, so the environment is written out below.
import copy
import math
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pendulum:
    max_speed, max_torque, dt, g = 8.0, 2.0, 0.05, 10.0

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def reset(self):
        self.th = self.rng.uniform(-math.pi, math.pi)
        self.thdot = self.rng.uniform(-1, 1)
        self.t = 0
        return self.obs()

    def obs(self):
        return np.array([math.cos(self.th), math.sin(self.th), self.thdot], dtype=np.float32)

    def step(self, u):
        u = max(-self.max_torque, min(self.max_torque, float(u)))
        angle = ((self.th + math.pi) % (2 * math.pi)) - math.pi
        cost = angle**2 + 0.1 * self.thdot**2 + 0.001 * u**2
        self.thdot += (3 * self.g / 2 * math.sin(self.th) + 3.0 * u) * self.dt
        self.thdot = max(-self.max_speed, min(self.max_speed, self.thdot))
        self.th += self.thdot * self.dt
        self.t += 1
        return self.obs(), -cost, self.t >= 200


class ReplayBuffer:
    def __init__(self, size, obs_dim, act_dim):
        self.o = np.zeros((size, obs_dim), np.float32)
        self.o2 = np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros((size, act_dim), np.float32)
        self.r = np.zeros((size, 1), np.float32)
        self.size, self.n, self.ptr = size, 0, 0

    def push(self, o, a, r, o2):
        i = self.ptr
        self.o[i], self.a[i], self.r[i], self.o2[i] = o, a, r, o2
        self.ptr = (i + 1) % self.size
        self.n = min(self.n + 1, self.size)

    def sample(self, k):
        i = np.random.randint(0, self.n, k)
        return tuple(torch.from_numpy(v[i]).to(device) for v in (self.o, self.a, self.r, self.o2))


def mlp(i, o, h=192):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(3, 1)

    def forward(self, o):
        return 2.0 * torch.tanh(self.net(o))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(4, 1), mlp(4, 1)

    def forward(self, o, a):
        x = torch.cat([o, a], 1)
        return self.q1(x), self.q2(x)


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
gamma, tau, batch, start_steps, delay = 0.98, 0.005, 128, 1000, 2
env = Pendulum(0)
actor, critic = Actor().to(device), Critic().to(device)
actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
opt_a = torch.optim.Adam(actor.parameters(), lr=5e-4)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
buffer = ReplayBuffer(100_000, 3, 1)

total, episode, t0 = 0, 0, time.time()
q_loss = pi_loss = torch.zeros(())
returns = []
while total < 100_000:
    o, done, ret = env.reset(), False, 0.0
    while not done:
        if total < start_steps:
            a = np.array([random.uniform(-2, 2)], np.float32)
        else:
            with torch.no_grad():
                a = actor(torch.from_numpy(o)[None].to(device))[0].cpu().numpy()
            a = np.clip(a + np.random.normal(0, 0.2, 1), -2, 2).astype(np.float32)
        o2, r, done = env.step(a[0])
        buffer.push(o, a, r, o2)
        o, ret, total = o2, ret + r, total + 1

        if total >= start_steps:
            bo, ba, br, bo2 = buffer.sample(batch)
            with torch.no_grad():
                noise = (0.2 * torch.randn_like(ba)).clamp(-0.5, 0.5)
                a2 = (actor_t(bo2) + noise).clamp(-2, 2)
                t1, t2 = critic_t(bo2, a2)
                target = br + gamma * torch.min(t1, t2)
            q1, q2 = critic(bo, ba)
            q_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
            opt_c.zero_grad()
            q_loss.backward()
            opt_c.step()
            if total % delay == 0:
                pi_loss = -critic.q1(torch.cat([bo, actor(bo)], 1)).mean()
                opt_a.zero_grad()
                pi_loss.backward()
                opt_a.step()
                with torch.no_grad():
                    for net, tgt in ((actor, actor_t), (critic, critic_t)):
                        for p, q in zip(net.parameters(), tgt.parameters()):
                            q.lerp_(p, tau)
    episode += 1
    returns.append(ret)
    print(
        f"Episode {episode:4d} | steps {total:6d} | return {ret:8.1f} | mean10 {np.mean(returns[-10:]):8.1f} "
        f"| loss_q {q_loss.item():.3f} | loss_pi {pi_loss.item():.3f} | {time.time() - t0:.0f}s"
    )
