"""DQN for a lift with waiting passengers. Ported from our cost-based controller (the old one minimized waiting time).

Return: minus the number of waiting passengers, summed over an episode.
"""
import collections
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

FLOORS, ACTIONS = 7, 3


class Lift:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.at, self.t, self.waiting = 0, 0, [0] * FLOORS
        return self.state()

    def state(self):
        return [float(self.at == f) for f in range(FLOORS)] + [w / 5 for w in self.waiting]

    def step(self, action):
        self.at = min(FLOORS - 1, max(0, self.at + (action - 1)))
        self.waiting[self.at] = 0
        for f in range(FLOORS):
            if self.rng.random() < (0.02 if f else 0.12):
                self.waiting[f] = min(10, self.waiting[f] + 1)
        self.t += 1
        return self.state(), -sum(self.waiting) / FLOORS, self.t >= 80


def make():
    return nn.Sequential(nn.Linear(2 * FLOORS, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, ACTIONS))


class Agent:
    def __init__(self):
        self.q, self.target = make(), make()
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), 5e-4)

    def act(self, state, eps, rng):
        if rng.random() < eps:
            return rng.randrange(ACTIONS)
        with torch.no_grad():
            return self.q(torch.tensor(state)).argmin().item()

    def update(self, batch):
        s, a, r, s2, d = (torch.tensor(x, dtype=torch.float32) for x in zip(*batch))
        with torch.no_grad():
            y = r + 0.95 * (1 - d) * self.target(s2).max(1).values
        loss = F.smooth_l1_loss(self.q(s).gather(1, a.long().unsqueeze(1)).squeeze(1), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        for w, t in zip(self.q.parameters(), self.target.parameters()):
            t.data.lerp_(w.data, 0.01)
        return loss.item()


def main():
    rng = random.Random(0)
    torch.manual_seed(0)
    env, agent, memory = Lift(rng), Agent(), collections.deque(maxlen=20_000)
    start, episode, steps, recent, loss = time.time(), 0, 0, collections.deque(maxlen=10), 0.0
    while time.time() - start < 215:
        state, done, total = env.reset(), False, 0.0
        eps = max(0.05, 1 - episode / 60)
        while not done:
            action = agent.act(state, eps, rng)
            after, reward, done = env.step(action)
            memory.append((state, action, reward, after, done))
            state, total, steps = after, total + reward, steps + 1
            if len(memory) > 300:
                loss = agent.update(rng.sample(memory, 64))
        recent.append(total)
        episode += 1
        if episode % 5 == 0:
            print(f"Episode {episode}\tReturn {sum(recent) / len(recent):.1f}\tEpsilon {eps:.2f}\tTD-loss {loss:.4f}\tSteps {steps}", flush=True)


if __name__ == "__main__":
    main()
