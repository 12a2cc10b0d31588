"""DQN that keeps a hot air balloon at its altitude. My first RL project, based on several blog posts."""
import math
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


class BalloonEnv:
    """state: height, speed, heat, wind. actions: vent, nothing, burn"""

    def __init__(self, seed=0):
        self.rng = random.Random(seed)

    def reset(self):
        self.h, self.v, self.heat = self.rng.uniform(-1, 1), 0.0, 0.0
        self.wind, self.t = 0.0, 0
        return self._obs()

    def _obs(self):
        return np.array([self.h, self.v, self.heat, self.wind], dtype=np.float32)

    def step(self, a):
        self.t += 1
        self.heat = 0.9 * self.heat + 0.12 * (a - 1)
        self.wind = 0.95 * self.wind + self.rng.gauss(0, 0.01)
        self.v = 0.92 * self.v + 0.15 * self.heat + 0.1 * self.wind
        self.h += self.v
        r = math.exp(-2 * abs(self.h))
        crashed = abs(self.h) > 2.5
        return self._obs(), r, crashed, crashed or self.t >= 100


class QNet(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.fc1 = nn.Linear(n_obs, 96)
        self.fc2 = nn.Linear(96, 96)
        self.fc3 = nn.Linear(96, n_act)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Agent:
    def __init__(self, n_obs, n_act, lr=5e-4, gamma=0.97, batch_size=64):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.q, self.target = QNet(n_obs, n_act).to(self.device), QNet(n_obs, n_act).to(self.device)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = optim.Adam(self.q.parameters(), lr=lr)
        self.gamma, self.batch_size, self.n_act = gamma, batch_size, n_act
        self.memory = []
        self.eps = 1.0

    def act(self, s):
        if random.random() < self.eps:
            return random.randrange(self.n_act)
        with torch.no_grad():
            return self.q(torch.from_numpy(s).to(self.device)).argmax().item()

    def remember(self, s, a, r, s2, done):
        self.memory.append((torch.from_numpy(s), torch.tensor(a), torch.tensor(r, dtype=torch.float32), torch.from_numpy(s2), torch.tensor(float(done))))

    def learn(self):
        if len(self.memory) < self.batch_size:
            return None
        states, actions, rewards, next_states, dones = zip(*self.memory)
        states, actions, rewards = torch.stack(states), torch.stack(actions), torch.stack(rewards)
        next_states, dones = torch.stack(next_states), torch.stack(dones)
        idx = torch.randint(len(self.memory), (self.batch_size,))
        s, a, r = states[idx].to(self.device), actions[idx].to(self.device), rewards[idx].to(self.device)
        s2, d = next_states[idx].to(self.device), dones[idx].to(self.device)

        q = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            y = r + self.gamma * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        for p, t in zip(self.q.parameters(), self.target.parameters()):
            t.data.mul_(0.99).add_(0.01 * p.data)
        return loss.item()


def main():
    random.seed(0)
    torch.manual_seed(0)
    env, agent = BalloonEnv(), Agent(4, 3)
    scores = []
    start = time.time()
    for episode in range(1, 2001):
        s, score, losses, done = env.reset(), 0.0, [], False
        while not done:
            a = agent.act(s)
            s2, r, crashed, done = env.step(a)
            agent.remember(s, a, r, s2, crashed)
            loss = agent.learn()
            if loss is not None:
                losses.append(loss)
            s, score = s2, score + r
        agent.eps = max(0.05, agent.eps * 0.94)
        scores.append(score)
        print("Episode {}\tScore: {:.2f}\tAverage Score: {:.2f}\tLoss: {:.4f}\tElapsed: {:.0f}s".format(
            episode, score, np.mean(scores[-20:]), np.mean(losses or [0]), time.time() - start))


if __name__ == "__main__":
    main()
