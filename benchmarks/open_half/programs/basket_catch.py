# DQN from pixels: catch the apple with the basket. My first RL project :)
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GAMMA = 0.9
BATCH_SIZE = 32
MEMORY = 30000
LR = 5e-4
TARGET_UPDATE = 400
SAVE_EVERY = 40  # episodes
SIZE = 28
SAVE_DIR = tempfile.mkdtemp(prefix="dqn_")


class CatchEnv:
    """An apple falls over a noisy background; move left, stay or move right."""

    def reset(self):
        self.row, self.col = 0, random.randrange(2, SIZE - 2)
        self.basket = random.randrange(2, SIZE - 2)
        return self.frame()

    def frame(self):
        f = np.random.randint(0, 40, (SIZE, SIZE), dtype=np.uint8)
        f[max(0, self.row - 1) : self.row + 2, self.col - 1 : self.col + 2] = 255
        f[SIZE - 2 :, self.basket - 2 : self.basket + 3] = 180
        return f

    def step(self, action):
        before = abs(self.basket - self.col)
        self.basket = int(np.clip(self.basket + 2 * (action - 1), 2, SIZE - 3))
        self.row += 1
        done = self.row >= SIZE - 2
        reward = 0.1 * float(np.sign(before - abs(self.basket - self.col)))
        if done:
            reward += 1.0 if abs(self.basket - self.col) <= 2 else -1.0
        return self.frame(), reward, done


class ReplayMemory:
    def __init__(self, size):
        self.s = np.zeros((size, SIZE, SIZE), dtype=np.uint8)
        self.s2 = np.zeros((size, SIZE, SIZE), dtype=np.uint8)
        self.a = np.zeros(size, dtype=np.int64)
        self.r = np.zeros(size, dtype=np.float32)
        self.d = np.zeros(size, dtype=np.float32)
        self.size, self.pos, self.full = size, 0, False

    def push(self, s, a, r, s2, d):
        i = self.pos
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = s, a, r, s2, d
        self.pos = (i + 1) % self.size
        self.full = self.full or self.pos == 0

    def sample(self, n):
        i = np.random.randint(0, self.size if self.full else self.pos, n)
        as_float = lambda x: torch.from_numpy(x[i]).float().div_(255).unsqueeze(1)  # noqa: E731
        return as_float(self.s), torch.from_numpy(self.a[i]), torch.from_numpy(self.r[i]), as_float(self.s2), torch.from_numpy(self.d[i])


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 5, stride=2, padding=2)
        self.c2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.fc1 = nn.Linear(32 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, 3)

    def forward(self, x):
        x = F.relu(self.c2(F.relu(self.c1(x))))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


env, memory = CatchEnv(), ReplayMemory(MEMORY)
policy_net, target_net = QNet(), QNet()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.Adam(policy_net.parameters(), lr=LR)


def save_agent(episode):
    """Everything that is needed to resume exactly here."""
    torch.save({"net": policy_net.state_dict(), "opt": optimizer.state_dict(), "ep": episode}, os.path.join(SAVE_DIR, "agent.pt"))
    np.savez_compressed(os.path.join(SAVE_DIR, "memory.npz"), s=memory.s, a=memory.a, r=memory.r, s2=memory.s2, d=memory.d)


print("filling the replay memory ...")
s = env.reset()
for _ in range(MEMORY):
    a = random.randrange(3)
    s2, r, done = env.step(a)
    memory.push(s, a, r, s2, float(done))
    s = env.reset() if done else s2

steps, returns, losses = 0, [], []


def learn():
    bs, ba, br, bs2, bd = memory.sample(BATCH_SIZE)
    q = policy_net(bs).gather(1, ba[:, None]).squeeze(1)
    with torch.no_grad():
        best = policy_net(bs2).argmax(1, keepdim=True)
        target = br + GAMMA * (1 - bd) * target_net(bs2).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(q, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


# first learn from the random play, without acting
for i in range(600):
    learn()
    if i % 100 == 0:
        print(f"warm-up {i}  loss {losses[-1]:.4f}")

for episode in range(1, 20001):
    s, done, score = env.reset(), False, 0.0
    while not done:
        eps = max(0.05, 0.5 - steps / 4000)
        if random.random() < eps:
            a = random.randrange(3)
        else:
            with torch.no_grad():
                a = policy_net(torch.from_numpy(s).float().div(255)[None, None]).argmax().item()
        s2, r, done = env.step(a)
        memory.push(s, a, r, s2, float(done))
        s = s2
        score += r
        learn()
        steps += 1
        if steps % TARGET_UPDATE == 0:
            target_net.load_state_dict(policy_net.state_dict())
    returns.append(score)
    if episode % 5 == 0:
        print(f"episode {episode}  return(50) {np.mean(returns[-50:]):+.2f}  loss {np.mean(losses[-200:]):.4f}  eps {eps:.2f}")
    if episode % SAVE_EVERY == 0:
        save_agent(episode)
