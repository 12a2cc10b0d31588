#!/usr/bin/env python
# coding: utf-8

# ## Policy gradients from scratch
# A two-wheeled robot that has to keep its pole up. Following the lecture notes, chapter 13.

# In[1]:


import math
from collections import deque

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(5)
np.random.seed(5)


# In[2]:


class BalanceBot:
    """like CartPole, with a longer pole, at 50 Hz"""

    g, mc, mp, l, dt = 9.8, 1.0, 0.2, 1.6, 0.02

    def reset(self):
        self.s = np.random.uniform(-0.05, 0.05, 4)
        self.t = 0
        return self.s.astype(np.float32)

    def step(self, a):
        x, v, th, w = self.s
        f = 10.0 if a == 1 else -10.0
        m = self.mc + self.mp
        tmp = (f + self.mp * self.l * w * w * math.sin(th)) / m
        acc = (self.g * math.sin(th) - math.cos(th) * tmp) / (self.l * (4 / 3 - self.mp * math.cos(th) ** 2 / m))
        xa = tmp - self.mp * self.l * acc * math.cos(th) / m
        self.s = np.array([x + self.dt * v, v + self.dt * xa, th + self.dt * w, w + self.dt * acc])
        self.t += 1
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.3 or self.t >= 300
        return self.s.astype(np.float32), 1.0, done


env = BalanceBot()


# In[3]:


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, s):
        return Categorical(logits=self.net(s))


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)
gamma = 0.99


def play():
    s, log_probs, rewards, done = env.reset(), [], [], False
    while not done:
        dist = policy(torch.from_numpy(s))
        a = dist.sample()
        log_probs.append(dist.log_prob(a))
        s, r, done = env.step(a.item())
        rewards.append(r)
    return torch.stack(log_probs), rewards


def discount(rewards):
    out, R = [], 0.0
    for r in reversed(rewards):
        R = r + gamma * R
        out.insert(0, R)
    return torch.tensor(out)


# In[4]:


last = deque(maxlen=100)
for update in range(1, 20001):
    lps, rets = [], []
    for _ in range(8):
        lp, rewards = play()
        lps.append(lp)
        rets.append(discount(rewards))
        last.append(sum(rewards))
    lps, rets = torch.cat(lps), torch.cat(rets)
    adv = (rets - rets.mean()) / (rets.std() + 1e-8)
    loss = (lps * adv).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 10 == 0:
        print("update %4d | mean return (100 episodes) %.1f | loss %.4f" % (update, np.mean(last), loss.item()))
