"""Advantage actor-critic over many small mazes at once. Logs in tables, as Stable-Baselines does."""
import argparse
import sys

import torch
from torch import nn
from torch.distributions import Categorical


class KeyValues:
    """Collects values, and prints a table of them."""

    def __init__(self):
        self.values = {}

    def record(self, key, value):
        self.values[key] = value

    def dump(self):
        groups, width = {}, 10
        for key, value in self.values.items():
            group, name = key.split("/")
            groups.setdefault(group + "/", []).append((name, f"{value:.3g}" if isinstance(value, float) else str(value)))
        rows = [(f"{g}", "") if n is None else (f"   {n}", v) for g, items in groups.items() for n, v in [(None, None), *items]]
        left = max(len(k) for k, _ in rows)
        line = "-" * (left + width + 7)
        print(line, *(f"| {k.ljust(left)} | {v.ljust(width)} |" for k, v in rows), line, sep="\n", flush=True)


class Corridors:
    """``n`` corridors: the goal is on the left or on the right, as the observation says. Walking there is rewarded."""

    def __init__(self, n, length=6):
        self.n, self.length = n, length
        self.side = torch.randint(0, 2, (n,)) * 2 - 1
        self.at, self.left = torch.zeros(n), torch.full((n,), 2 * length)

    def obs(self):
        return torch.stack([self.side.float(), self.at / self.length, self.left / (2 * self.length)], 1)

    def step(self, action):
        move = action.float() * 2 - 1
        reward = move * self.side * 0.2
        self.at += move
        self.left -= 1
        done = (self.at.abs() >= self.length) | (self.left <= 0)
        fresh = torch.randint(0, 2, (self.n,)) * 2 - 1
        self.side = torch.where(done, fresh, self.side)
        self.at = torch.where(done, torch.zeros(()), self.at)
        self.left = torch.where(done, torch.tensor(2 * self.length), self.left)
        return reward, done


def main(argv):
    p = argparse.ArgumentParser()
    p.add_argument("--n-envs", type=int, default=16)
    p.add_argument("--n-steps", type=int, default=12)
    p.add_argument("--lr", type=float, default=3e-5)
    p.add_argument("--log-interval", type=int, default=20)
    args = p.parse_args(argv)
    torch.manual_seed(3)
    torch.set_num_threads(1)
    env, logger = Corridors(args.n_envs), KeyValues()
    body = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    pi, vf = nn.Linear(64, 2), nn.Linear(64, 1)
    opt = torch.optim.RMSprop([*body.parameters(), *pi.parameters(), *vf.parameters()], lr=args.lr, eps=1e-5)
    running, finished = torch.zeros(args.n_envs), []
    for it in range(1, 1_000_000):
        logps, values, rewards, masks = [], [], [], []
        for _ in range(args.n_steps):
            h = body(env.obs())
            dist = Categorical(logits=pi(h))
            a = dist.sample()
            r, done = env.step(a)
            logps.append(dist.log_prob(a)), values.append(vf(h).squeeze(1)), rewards.append(r), masks.append(~done)
            running += r
            finished += running[done].tolist()
            running[done] = 0
        with torch.no_grad():
            ret = vf(body(env.obs())).squeeze(1)
        returns = []
        for r, m in zip(reversed(rewards), reversed(masks)):
            ret = r + 0.9 * ret * m
            returns.insert(0, ret)
        returns, values = torch.stack(returns), torch.stack(values)
        adv = (values - returns).detach()
        policy_loss, value_loss = -(adv * torch.stack(logps)).mean(), nn.functional.mse_loss(values, returns)
        opt.zero_grad()
        (policy_loss + 0.5 * value_loss).backward()
        opt.step()
        if it % args.log_interval == 0:
            logger.record("rollout/ep_rew_mean", sum(finished[-100:]) / max(1, len(finished[-100:])))
            logger.record("time/iterations", it)
            logger.record("time/total_timesteps", it * args.n_envs * args.n_steps)
            logger.dump()


if __name__ == "__main__":
    main(sys.argv[1:])
