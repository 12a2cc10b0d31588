# DQN with prioritized replay from scratch: the robot brings coffee to the desks without spilling (7x7 office)
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


class Office:
    def __init__(self, size=7, horizon=60):
        self.size, self.horizon = size, horizon

    def reset(self):
        self.pos = [random.randrange(self.size), random.randrange(self.size)]
        self.desk = [random.randrange(self.size), random.randrange(self.size)]
        self.t = 0
        return self.obs()

    def obs(self):
        return self.pos[0] * self.size + self.pos[1], self.desk[0] * self.size + self.desk[1]

    def distance(self):
        return abs(self.pos[0] - self.desk[0]) + abs(self.pos[1] - self.desk[1])

    def step(self, a):
        before = self.distance()
        d = [(0, 1), (0, -1), (1, 0), (-1, 0)][a]
        for k in (0, 1):
            self.pos[k] = min(max(self.pos[k] + d[k], 0), self.size - 1)
        self.t += 1
        reward = 0.1 * (before - self.distance()) - 0.02
        if self.pos == self.desk:
            reward = 1.0
            self.desk = [random.randrange(self.size), random.randrange(self.size)]
        return self.obs(), reward, self.t >= self.horizon


class QNetwork(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.cells = n_in // 2
        self.layers = nn.Sequential(nn.Linear(n_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_out))

    def forward(self, x):
        return self.layers(nn.functional.one_hot(x, self.cells).flatten(1).float())


class PrioritizedMemory:
    """Schaul et al. 2016, proportional variant"""

    def __init__(self, capacity=1_000_000, alpha=0.6, beta=0.4):
        self.capacity, self.alpha, self.beta = capacity, alpha, beta
        self.transitions, self.priorities = [], []

    def push(self, *transition):
        top = max(self.priorities) if self.priorities else 1.0
        self.transitions.append(transition)
        self.priorities.append(top)
        if len(self.transitions) > self.capacity:
            self.transitions.pop(0)
            self.priorities.pop(0)

    def sample(self, n):
        scaled = [p**self.alpha for p in self.priorities]
        total = sum(scaled)
        probs = [p / total for p in scaled]
        idx = random.choices(range(len(probs)), weights=probs, k=n)
        weights = [(len(probs) * p) ** -self.beta for p in probs]
        top = max(weights)
        weights = torch.tensor([weights[i] / top for i in idx])
        s, a, r, s2, d = zip(*[self.transitions[i] for i in idx])
        batch = (torch.tensor(s), torch.tensor(a), torch.tensor(r), torch.tensor(s2), torch.tensor(d).float())
        return idx, weights.to(device), [v.to(device) for v in batch]

    def update(self, idx, errors):
        for i, e in zip(idx, errors):
            self.priorities[i] = abs(e) + 1e-3


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
env = Office()
memory = PrioritizedMemory()
policy, target = QNetwork(98, 4).to(device), QNetwork(98, 4).to(device)
target.load_state_dict(policy.state_dict())
optimizer = optim.Adam(policy.parameters(), lr=1e-3)
GAMMA, BATCH, EPISODES = 0.9, 64, 4000
eps, step = 1.0, 0
returns = []
began = time.time()

for episode in range(EPISODES):
    s = env.reset()
    done, total, losses = False, 0.0, []
    while not done:
        if random.random() < eps:
            a = random.randrange(4)
        else:
            with torch.no_grad():
                a = policy(torch.tensor([s]).to(device)).argmax().item()
        s2, r, done = env.step(a)
        memory.push(s, a, r, s2, done)
        s = s2
        total += r
        step += 1
        if step > 200:
            idx, weights, (bs, ba, br, bs2, bd) = memory.sample(BATCH)
            q = policy(bs).gather(1, ba.unsqueeze(1)).squeeze(1)
            with torch.no_grad():
                best = target(bs2).max(1).values
            error = br + GAMMA * best * (1 - bd) - q
            memory.update(idx, error.tolist())
            loss = (weights * error.pow(2)).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
        if step % 200 == 0:
            target.load_state_dict(policy.state_dict())
    eps = max(0.05, eps * 0.97)
    returns.append(total)
    if losses:
        print(
            f"episode {episode:4d} steps {step:6d} return {np.mean(returns[-20:]):6.2f} loss {np.mean(losses):.4f} "
            f"eps {eps:.2f} elapsed {time.time() - began:.0f}s"
        )
