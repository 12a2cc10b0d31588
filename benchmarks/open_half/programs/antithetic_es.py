"""Evolution strategies (OpenAI-ES) on a linear-quadratic problem; a pool evaluates pairs of perturbed policies."""
import multiprocessing as mp

import torch

SIGMA, LR, PAIRS = 0.05, 0.02, 16
SIZES = [(8, 32), (32, 2)]
COUNT = sum(a * b for a, b in SIZES)


def unpack(flat):
    out, at = [], 0
    for a, b in SIZES:
        out.append(flat[at : at + a * b].view(a, b))
        at += a * b
    return out


@torch.no_grad()
def rollout(job):
    flat, seed = job
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(seed)
    w1, w2 = unpack(flat)
    a = torch.eye(8) * 0.98
    b = torch.randn(8, 2, generator=torch.Generator().manual_seed(1)) * 0.3
    s, cost = torch.randn(64, 8, generator=g), 0.0
    for _ in range(60):
        u = torch.tanh(s @ w1) @ w2
        s = s @ a + u @ b.T
        cost += float(s.pow(2).mean() + 0.01 * u.pow(2).mean())
    return -cost


def main():
    torch.manual_seed(0)
    theta = torch.randn(COUNT) * 0.1
    with mp.get_context("spawn").Pool(2) as pool:
        for gen in range(1, 100000):
            noise = torch.randn(PAIRS, COUNT)
            jobs = [(theta + s * SIGMA * n, gen) for n in noise for s in (1, -1)]
            r = torch.tensor(pool.map(rollout, jobs)).view(PAIRS, 2)
            score = r[:, 0] - r[:, 1]
            theta = theta + LR * ((score / (score.std() + 1e-8))[:, None] * noise).mean(0)
            if gen % 5 == 0:
                print(f"generation {gen} return {r.mean():.2f} best {r.max():.2f}", flush=True)


if __name__ == "__main__":
    main()
