"""Falling blocks, evolved policy improvement with rollouts from env workers behind pipes (a small SubprocVecEnv).

    python tetris_workers.py --workers 2
"""
import argparse
import multiprocessing as mp
import random
import sys
import time

import torch
from torch import nn

W, H = 6, 10


class Blocks:
    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.heights, self.piece, self.moves = [0] * W, self.rng.randint(1, 3), 0
        return self.look()

    def look(self):
        return [h / H for h in self.heights] + [self.piece / 3]

    def step(self, column):
        column = min(column, W - self.piece)
        top = max(self.heights[column : column + self.piece]) + 1
        for i in range(column, column + self.piece):
            self.heights[i] = top
        cleared = min(self.heights)
        self.heights = [h - cleared for h in self.heights]
        over = max(self.heights) >= H
        self.piece = self.rng.randint(1, 3)
        self.moves += 1
        return self.look(), float(cleared) - (5.0 if over else 0.0), over or self.moves == 60


def worker(conn, seed, max_episodes):
    env, episodes = Blocks(random.Random(seed)), 0
    obs = env.reset()
    while True:
        kind, data = conn.recv()
        if kind == "reset":
            conn.send(env.reset())
        elif kind == "step":
            obs, reward, done = env.step(data)
            if done:
                episodes += 1
                if episodes >= max_episodes:
                    sys.exit(0)
                obs = env.reset()
            conn.send((obs, reward, done))


class VecEnv:
    def __init__(self, n, max_episodes):
        pairs = [mp.Pipe() for _ in range(n)]
        self.conns = [ours for ours, _ in pairs]
        self.theirs = [theirs for _, theirs in pairs]
        self.processes = [mp.Process(target=worker, args=(theirs, 10 + i, max_episodes), daemon=True) for i, theirs in enumerate(self.theirs)]
        for process in self.processes:
            process.start()

    def reset(self):
        for c in self.conns:
            c.send(("reset", None))
        return torch.tensor([c.recv() for c in self.conns])

    def step(self, actions):
        for c, a in zip(self.conns, actions.tolist()):
            c.send(("step", a))
        obs, rewards, dones = zip(*[c.recv() for c in self.conns])
        return torch.tensor(obs), torch.tensor(rewards), torch.tensor(dones)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--max-episodes", type=int, default=200, help="workers of the game leak memory, so none lives forever")
    p.add_argument("--n-steps", type=int, default=32)
    a = p.parse_args()
    torch.manual_seed(0)
    envs = VecEnv(a.workers, a.max_episodes)
    net = nn.Sequential(nn.Linear(W + 1, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    pi, v = nn.Linear(128, W), nn.Linear(128, 1)
    opt = torch.optim.RMSprop([*net.parameters(), *pi.parameters(), *v.parameters()], 7e-4)
    obs, update, episodes, t0 = envs.reset(), 0, 0, time.time()
    while True:
        logps, values, rewards, masks, ents = [], [], [], [], []
        for _ in range(a.n_steps):
            h = net(obs)
            d = torch.distributions.Categorical(logits=pi(h))
            act = d.sample()
            obs, r, done = envs.step(act)
            episodes += int(done.sum())
            logps.append(d.log_prob(act)), values.append(v(h).squeeze(-1)), rewards.append(r), masks.append(~done), ents.append(d.entropy())
        with torch.no_grad():
            ret, returns = v(net(obs)).squeeze(-1), []
        for r, m in zip(reversed(rewards), reversed(masks)):
            ret = r + 0.97 * ret * m
            returns.insert(0, ret)
        adv = torch.stack(returns) - torch.stack(values)
        loss = -(torch.stack(logps) * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.01 * torch.stack(ents).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        update += 1
        if update % 10 == 0:
            print({"update": update, "episodes": episodes, "reward/step": round(torch.stack(rewards).mean().item(), 3), "value_loss": round(adv.pow(2).mean().item(), 3), "fps": int(update * a.n_steps * a.workers / (time.time() - t0))}, flush=True)


if __name__ == "__main__":
    main()
