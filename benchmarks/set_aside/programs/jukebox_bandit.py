"""Learns which song a jukebox should propose, from simulated guests (policy gradient).

    python jukebox_bandit.py --updates 6000
"""
import argparse
import csv
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Guests:
    """A vectorised bar: every guest has a taste and a mood, gets tired of repeated genres, and pays by whim."""

    def __init__(self, n, n_songs, seed):
        self.rng = np.random.default_rng(seed)
        self.n, self.n_songs = n, n_songs
        self.songs = self.rng.normal(size=(n_songs, 8)).astype(np.float32)
        self.songs /= np.linalg.norm(self.songs, axis=1, keepdims=True)
        self.reset(np.ones(n, dtype=bool))

    def reset(self, mask):
        if not hasattr(self, "taste"):
            self.taste = np.zeros((self.n, 8), dtype=np.float32)
            self.tired = np.zeros((self.n, 8), dtype=np.float32)
            self.stay = np.zeros(self.n, dtype=int)
        k = int(mask.sum())
        fresh = self.rng.normal(size=(k, 8)).astype(np.float32)
        self.taste[mask] = fresh / np.linalg.norm(fresh, axis=1, keepdims=True)
        self.tired[mask] = 0
        self.stay[mask] = self.rng.integers(5, 16, k)

    def observe(self):
        return torch.from_numpy(np.concatenate([self.taste, self.tired], 1))

    def step(self, action):
        song = self.songs[action]
        liking = (song * self.taste).sum(1) - 0.8 * np.maximum((song * self.tired).sum(1), 0)
        paid = self.rng.random(self.n) < 1 / (1 + np.exp(-5 * (liking - 0.4)))
        coins = paid * self.rng.exponential(1.0, self.n)
        self.tired = 0.6 * self.tired + 0.4 * song
        self.stay -= 1
        left = self.stay <= 0
        self.reset(left)
        return coins.astype(np.float32), left


class Policy(nn.Module):
    def __init__(self, n_songs, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.song = nn.Linear(width, n_songs)
        self.value = nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.song(h)), self.value(h).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--guests", type=int, default=48)
    p.add_argument("--songs", type=int, default=200)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--updates", type=int, default=6000)
    p.add_argument("--lr", type=float, default=6e-4)
    p.add_argument("--gamma", type=float, default=0.5)
    p.add_argument("--entropy", type=float, default=0.01)
    p.add_argument("--csv", default="jukebox_bandit.csv")
    args = p.parse_args()
    torch.manual_seed(8)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    bar = Guests(args.guests, args.songs, seed=8)
    policy = Policy(args.songs).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    returns, current = deque(maxlen=2000), np.zeros(args.guests)
    out = open(args.csv, "w", newline="")
    table = csv.writer(out)
    table.writerow(["update", "coins_last", "coins_mean", "entropy"])
    print(f"{args.guests} guests at a time, {args.songs} songs, policy on {device}", flush=True)

    begin = time.time()
    for update in range(1, args.updates + 1):
        states, actions, rewards, ends = [], [], [], []
        finished = []
        for _ in range(args.horizon):
            state = bar.observe().to(device)
            with torch.no_grad():
                choice, _ = policy(state)
                action = choice.sample()
            coins, left = bar.step(action.cpu().numpy())
            current += coins
            finished.extend(current[left])
            current[left] = 0
            states.append(state)
            actions.append(action)
            rewards.append(torch.from_numpy(coins).to(device))
            ends.append(torch.from_numpy(left).to(device))
        returns.extend(finished)
        with torch.no_grad():
            _, follow = policy(bar.observe().to(device))
        targets = []
        for reward, end in zip(reversed(rewards), reversed(ends)):
            follow = reward + args.gamma * follow * (~end)
            targets.append(follow)
        target = torch.cat(targets[::-1])
        choice, value = policy(torch.cat(states))
        advantage = (target - value).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        gain = (choice.log_prob(torch.cat(actions)) * advantage).mean()
        spread = choice.entropy().mean()
        loss = -gain + 0.5 * (target - value).pow(2).mean() - args.entropy * spread
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        if update % 20 == 0:
            last = float(np.mean(finished)) if finished else float("nan")
            table.writerow([update, last, float(np.mean(returns)), spread.item()])
            out.flush()
            print(f"update {update} loss {loss.item():+.3f} return {last:.2f} (mean of {len(returns)}: {np.mean(returns):.2f}) "
                  f"entropy {spread.item():.2f} {update / (time.time() - begin):.1f} updates/s", flush=True)


if __name__ == "__main__":
    main()
