"""Peat cores: age from pollen, magnetics and colour.  Regression with an ensemble of three, whose members are judged in
processes of their own after each round, as the metrics (bootstraps in numpy) would hold up the training.
"""
import multiprocessing as mp
import sys
import time

import numpy as np
import torch
from torch import nn

DEPTHS, MEMBERS = 120, 3


def cores(n, seed):
    rng = np.random.default_rng(seed)
    age = np.sort(rng.uniform(0, 9, (n, DEPTHS)), 1)
    x = np.stack([np.sin(age), np.cos(0.7 * age), np.exp(-age / 4), rng.standard_normal(age.shape)], 1)
    return torch.from_numpy((x + 0.1 * rng.standard_normal(x.shape)).astype(np.float32)), torch.from_numpy(age.astype(np.float32))


def member(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv1d(4, 48, 9, padding=4), nn.ReLU(), nn.Conv1d(48, 48, 9, padding=4), nn.ReLU(), nn.Conv1d(48, 1, 1))


def judge(number, errors, resamples, results):
    """Puts the member's number, the mean error, its interval, and the curve over depth."""
    rng = np.random.default_rng(number)
    means = [errors[rng.integers(0, len(errors), len(errors))].mean() for _ in range(resamples)]
    curves = [errors[rng.integers(0, len(errors), len(errors))].mean(0) for _ in range(resamples)]
    results.put((number, errors.mean(), np.percentile(means, [2.5, 97.5]), np.stack(curves[: resamples // 4])))


def main():
    context = mp.get_context("fork")
    members = [member(s) for s in range(MEMBERS)]
    optimizers = [torch.optim.Adam(m.parameters(), 1e-3) for m in members]
    validation = cores(80, 99)
    start, round_ = time.time(), 0
    while time.time() - start < 210:
        round_ += 1
        for m, optimizer in zip(members, optimizers):
            for i in range(12):
                x, age = cores(16, 1000 * round_ + i)
                loss = (m(x).squeeze(1) - age).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            errors = [(m(validation[0]).squeeze(1) - validation[1]).abs().numpy() for m in members]
        results = context.Queue()
        resamples = 40 if round_ < 6 else 400  # rough intervals are enough in the beginning
        judges = [context.Process(target=judge, args=(k, e, resamples, results)) for k, e in enumerate(errors)]
        for process in judges:
            process.start()
        for process in judges:
            process.join()
        for number, mean, (low, high), _ in sorted((results.get() for _ in judges), key=lambda r: r[0]):
            print(f"round {round_:3d}  member {number}  error {mean:.3f} ka  [{low:.3f}, {high:.3f}]", file=sys.stderr, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
