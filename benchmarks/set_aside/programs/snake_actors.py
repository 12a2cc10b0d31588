"""Snake by actor-critic: two actors play, one learner updates. Weights go out through shared memory, episodes come in by a queue."""
import argparse
import time

import numpy as np
import torch
import torch.multiprocessing as mp
from torch import nn

SIDE = 8
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
TEMPERATURES = (2.0, 1.5, 1.0)  # less and less exploration


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * SIDE * SIDE, 128), nn.ReLU())
        self.pi, self.v = nn.Linear(128, 4), nn.Linear(128, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


class Snake:
    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.body = [(SIDE // 2, SIDE // 2)]
        self.hungry = 0
        self.place()

    def place(self):
        free = [(r, c) for r in range(SIDE) for c in range(SIDE) if (r, c) not in self.body]
        self.food = free[self.rng.integers(len(free))]

    def view(self):
        x = np.zeros((3, SIDE, SIDE), np.float32)
        for r, c in self.body:
            x[0, r, c] = 1
        x[1][self.body[0]] = 1
        x[2][self.food] = 1
        return x

    def step(self, move):
        r, c = self.body[0][0] + MOVES[move][0], self.body[0][1] + MOVES[move][1]
        self.hungry += 1
        if not (0 <= r < SIDE and 0 <= c < SIDE) or (r, c) in self.body or self.hungry > 40:
            return -1.0, True
        self.body.insert(0, (r, c))
        if (r, c) == self.food:
            self.hungry = 0
            self.place()
            return 1.0, False
        self.body.pop()
        return 0.0, False


def actor(index, policy, episodes, out):
    torch.set_num_threads(1)
    rng = np.random.default_rng(index)
    game = Snake(rng)
    for n in range(episodes):
        game.reset()
        temperature = TEMPERATURES[n // 40]
        views, moves, rewards, done = [], [], [], False
        while not done:
            x = game.view()
            with torch.no_grad():
                p = policy(torch.from_numpy(x)[None])[0].div(temperature).softmax(-1)[0].numpy()
            move = int(rng.choice(4, p=p / p.sum()))
            reward, done = game.step(move)
            views.append(x), moves.append(move), rewards.append(reward)
        out.put((np.stack(views), np.array(moves), np.array(rewards, np.float32)))


def learn(policy, opt, batch):
    x = torch.from_numpy(np.concatenate([b[0] for b in batch]))
    a = torch.from_numpy(np.concatenate([b[1] for b in batch]))
    returns = []
    for _, _, rewards in batch:
        total, one = 0.0, []
        for r in rewards[::-1]:
            total = r + 0.95 * total
            one.append(total)
        returns += one[::-1]
    g = torch.tensor(returns)
    logits, v = policy(x)
    dist = torch.distributions.Categorical(logits=logits)
    loss = -(dist.log_prob(a) * (g - v.detach())).mean() + 0.5 * (g - v).pow(2).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item(), float(np.mean([b[2].sum() for b in batch]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--actors", type=int, default=2)
    ap.add_argument("--episodes", type=int, default=20_000)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    policy = Policy().share_memory()
    opt = torch.optim.Adam(policy.parameters(), 5e-4)
    queue = mp.Queue(maxsize=32)
    players = [mp.Process(target=actor, args=(i, policy, args.episodes, queue), daemon=True) for i in range(args.actors)]
    for p in players:
        p.start()
    start = time.time()
    for update in range(1, 10**6):
        loss, score = learn(policy, opt, [queue.get() for _ in range(8)])
        print(f"update {update:4d} loss {loss:+.3f} return {score:+.2f} {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
