"""OpenAI-style evolution strategies for a climbing gecko (own 2-D physics), rollouts in processes.

    python gecko_walk.py
"""
import multiprocessing as mp
import time

import numpy as np
import torch
import torch.nn as nn

OBS, ACT = 6, 2
PAIRS = 6  # mirrored perturbations per worker
WORKERS = 2
SIGMA = 0.08
MAX_STEPS = 400


class Gecko:
    """A body on a wall. It drifts and tilts; the feet (2 actions) push against both. It falls off if it leans too far."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.lean, self.dlean = self.rng.uniform(-0.1, 0.1), 0.0
        self.x, self.dx = self.rng.uniform(-0.1, 0.1), 0.0
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.array([self.lean, self.dlean, self.x, self.dx, np.sin(self.t / 7), np.cos(self.t / 7)], dtype=np.float32)

    def step(self, a):
        a = np.clip(a, -1, 1)
        self.dlean += 0.05 * (3.0 * self.lean + 2.5 * a[0] + 0.5 * np.sin(self.t / 7)) + 0.02 * self.rng.randn()
        self.dx += 0.05 * (1.0 * self.x + 2.0 * a[1]) + 0.02 * self.rng.randn()
        self.lean += 0.05 * self.dlean
        self.x += 0.05 * self.dx
        self.t += 1
        fallen = abs(self.lean) > 0.8 or abs(self.x) > 1.0
        return self._obs(), 1.0, fallen or self.t >= MAX_STEPS


def build():
    return nn.Sequential(nn.Linear(OBS, 32), nn.Tanh(), nn.Linear(32, ACT))


def evaluate(net, env, trajectory):
    obs, done, total = env.reset(), False, 0.0
    while not done:
        with torch.no_grad():
            act = net(torch.from_numpy(obs)).numpy()
        trajectory.append(obs)
        obs, r, done = env.step(act)
        total += r
    return total


def worker(theta, seed, queue):
    torch.set_num_threads(1)
    net, env, rng = build(), Gecko(seed), np.random.RandomState(seed)
    results, states = [], []
    for _ in range(PAIRS):
        eps = rng.randn(len(theta)).astype(np.float32)
        rewards = []
        for sign in (1, -1):
            torch.nn.utils.vector_to_parameters(torch.from_numpy(theta + sign * SIGMA * eps), net.parameters())
            rewards.append(evaluate(net, env, states))
        results.append((eps, rewards[0], rewards[1]))
    # the visited states are for the running mean of the observations
    queue.put((results, np.array(states)))


def main():
    torch.manual_seed(0)
    net = build()
    theta = torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone().requires_grad_(True)
    opt = torch.optim.Adam([theta], lr=0.0025)
    print("parameters:", theta.numel(), flush=True)
    queue = mp.Queue()
    seen, t0 = 0, time.time()
    for gen in range(1, 2001):
        procs = [
            mp.Process(target=worker, args=(theta.detach().numpy(), gen * WORKERS + i, queue), daemon=True) for i in range(WORKERS)
        ]
        for p in procs:
            p.start()
        for p in procs:
            p.join()
        results = []
        for _ in procs:
            part, states = queue.get()
            results += part
            seen += len(states)
        rewards = np.array([(a, b) for _, a, b in results])
        ranks = rewards.ravel().argsort().argsort().reshape(rewards.shape) / (rewards.size - 1) - 0.5
        grad = sum((r[0] - r[1]) * eps for r, (eps, _, _) in zip(ranks, results)) / (2 * len(results) * SIGMA)
        opt.zero_grad()
        theta.grad = torch.from_numpy(-grad.astype(np.float32))
        opt.step()
        print(f"gen {gen:4d}  reward mean {rewards.mean():7.2f}  max {rewards.max():6.1f}  states {seen}  {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    main()
