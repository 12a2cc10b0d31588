"""Double DQN for a lift: which floor next? The loss follows the size of the returns."""
import random
import time
from collections import deque

import numpy as np
import torch
from torch import nn

FLOORS = 8


class Lift:
    def reset(self):
        self.at, self.t = random.randrange(FLOORS), 0
        self.waiting = np.zeros(FLOORS)
        return self.obs()

    def obs(self):
        here = np.zeros(FLOORS)
        here[self.at] = 1
        return np.concatenate([here, self.waiting / 3]).astype(np.float32)

    def step(self, action):
        if random.random() < 0.5:
            f = int(abs(random.gauss(0, 3))) % FLOORS
            self.waiting[f] = min(self.waiting[f] + 1, 3)
        self.at = max(0, min(FLOORS - 1, self.at + action - 1))
        reward = 0.0
        if action == 1:
            reward = float(self.waiting[self.at])
            self.waiting[self.at] = 0
        self.t += 1
        return self.obs(), reward, self.t >= 60


def net():
    return nn.Sequential(nn.Linear(2 * FLOORS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3))


def main(seconds=200):
    random.seed(0)
    torch.manual_seed(0)
    env, memory = Lift(), deque(maxlen=30000)
    q, target = net(), net()
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), 5e-4)
    began, frames, returns, episode = time.time(), 0, deque(maxlen=20), 0
    while time.time() - began < seconds:
        obs, done, total = env.reset(), False, 0.0
        while not done:
            eps = max(0.05, 1 - frames / 12000)
            with torch.no_grad():
                a = random.randrange(3) if random.random() < eps else int(q(torch.from_numpy(obs)).argmax())
            nxt, r, done = env.step(a)
            memory.append((obs, a, r, nxt, done))
            obs, total, frames = nxt, total + r, frames + 1
            if len(memory) > 1000 and frames % 2 == 0:
                o, ac, rw, nx, dn = (np.asarray(c) for c in zip(*random.sample(memory, 128)))
                o, nx = torch.from_numpy(o), torch.from_numpy(nx)
                with torch.no_grad():
                    best = q(nx).argmax(1, keepdim=True)
                    y = torch.tensor(rw).float() + 0.97 * target(nx).gather(1, best).squeeze(1)
                loss = nn.functional.smooth_l1_loss(q(o).gather(1, torch.tensor(ac).view(-1, 1)).squeeze(1), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            if frames % 500 == 0:
                target.load_state_dict(q.state_dict())
        returns.append(total)
        episode += 1
        if episode % 5 == 0 and len(memory) > 1100:
            print(f"episode {episode} frames {frames} eps {eps:.2f} return {np.mean(returns):.2f} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
