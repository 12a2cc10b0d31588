import random
import time

import numpy as np
import torch
import torch.nn as nn

SIZE = 8
N_ENVS = 32
GAMMA = 0.97
LR = 5e-4
BATCH = 128
MEMORY = 1_000_000
ALPHA = 0.6
EPS_START, EPS_END, EPS_STEPS = 1.0, 0.05, 4000
TARGET_EVERY = 250
TOTAL_STEPS = 500_000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Snake:
    def __init__(self):
        self.reset()

    def reset(self):
        self.body = [(SIZE // 2, SIZE // 2)]
        self.place()
        self.t = 0
        self.score = 0
        return self.obs()

    def place(self):
        free = [(r, c) for r in range(SIZE) for c in range(SIZE) if (r, c) not in self.body]
        self.food = random.choice(free)

    def obs(self):
        o = np.zeros((3, SIZE, SIZE), np.uint8)
        for r, c in self.body:
            o[0, r, c] = 1
        o[1][self.body[0]] = 1
        o[2][self.food] = 1
        return o

    def step(self, a):
        self.t += 1
        r, c = self.body[0]
        head = (r + MOVES[a][0], c + MOVES[a][1])
        if not (0 <= head[0] < SIZE and 0 <= head[1] < SIZE) or head in self.body[:-1]:
            return self.obs(), -1.0, True
        self.body.insert(0, head)
        if head == self.food:
            self.score += 1
            self.place()
            rew = 1.0
        else:
            self.body.pop()
            rew = -0.01
        return self.obs(), rew, self.t > 150


class Transition:
    __slots__ = ("s", "a", "r", "s2", "done", "priority")

    def __init__(self, s, a, r, s2, done, priority):
        self.s, self.a, self.r, self.s2, self.done, self.priority = s, a, r, s2, done, priority


class PrioritizedMemory:
    def __init__(self, capacity):
        self.capacity = capacity
        self.items = []

    def push(self, *tr):
        top = max((t.priority for t in self.items[-1000:]), default=1.0)
        s, a, r, s2, done = tr
        self.items.append(Transition(s.tobytes(), a, r, s2.tobytes(), done, top))
        if len(self.items) > self.capacity:
            self.items.pop(0)

    def sample(self, n):
        total = sum(t.priority ** ALPHA for t in self.items)
        p = np.array([t.priority ** ALPHA / total for t in self.items])
        idx = np.random.choice(len(self.items), n, p=p)
        w = (len(self.items) * p[idx]) ** -0.4
        return idx, [self.items[i] for i in idx], w / w.max()

    def update(self, idx, err):
        for i, e in zip(idx, err):
            self.items[i].priority = float(abs(e)) + 1e-3


def make_net():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                         nn.Flatten(), nn.Linear(16 * SIZE * SIZE, 128), nn.ReLU(), nn.Linear(128, 4)).to(DEVICE)


def tensor(x, dtype=torch.float32):
    return torch.as_tensor(np.asarray(x), dtype=dtype, device=DEVICE)


def boards(raw):
    return tensor(np.stack([np.frombuffer(b, np.uint8).reshape(3, SIZE, SIZE) for b in raw]))


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
q, target = make_net(), make_net()
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=LR)
memory = PrioritizedMemory(MEMORY)
envs = [Snake() for _ in range(N_ENVS)]
states = [e.reset() for e in envs]
scores = [0.0]
print(f"snake {SIZE}x{SIZE}, {N_ENVS} games at once, device {DEVICE}", flush=True)
start = last = time.time()
loss = torch.zeros(())
for step in range(1, TOTAL_STEPS + 1):
    eps = max(EPS_END, EPS_START - (EPS_START - EPS_END) * step / EPS_STEPS)
    with torch.no_grad():
        greedy = q(tensor(np.stack(states))).argmax(1).tolist()
    for i, env in enumerate(envs):
        a = random.randrange(4) if random.random() < eps else greedy[i]
        s2, r, done = env.step(a)
        memory.push(states[i], a, r, s2, done)
        if done:
            scores.append(env.score)
            s2 = env.reset()
        states[i] = s2
    if len(memory.items) >= 1000:
        idx, batch, w = memory.sample(BATCH)
        s, s2 = boards([t.s for t in batch]), boards([t.s2 for t in batch])
        a, r = tensor([t.a for t in batch], torch.long), tensor([t.r for t in batch])
        d = tensor([t.done for t in batch])
        with torch.no_grad():
            best = q(s2).argmax(1, keepdim=True)
            y = r + GAMMA * (1 - d) * target(s2).gather(1, best).squeeze(1)
        err = q(s).gather(1, a[:, None]).squeeze(1) - y
        loss = (tensor(w) * err.pow(2)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        memory.update(idx, err.detach().cpu().numpy())
    if step % TARGET_EVERY == 0:
        target.load_state_dict(q.state_dict())
    if step % 100 == 0:
        now = time.time()
        print(f"step {step:6d}  eps {eps:.2f}  mean score {np.mean(scores[-200:]):.2f}  loss {loss.item():.4f}  "
              f"memory {len(memory.items)}  {100 / (now - last):.1f} steps/s", flush=True)
        last = now
