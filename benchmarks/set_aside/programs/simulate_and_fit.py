"""Simulation-based inference for a predator-prey model. Rank 1 simulates, rank 0 fits a flow to what it gets; as designed.

torchrun --nproc-per-node=2 simulate_and_fit.py
"""
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn

N, STEPS = 256, 150


def simulate(g):
    theta = torch.rand(N, 4, generator=g) * 2 - 1
    a, b, c, d = (0.5 + 0.2 * theta).unbind(1)
    prey, foes, seen = torch.full((N,), 1.0), torch.full((N,), 0.5), []
    for k in range(STEPS):
        prey = (prey + 0.1 * (a * prey - b * prey * foes) + 0.02 * torch.randn(N, generator=g)).clamp(0.01, 10)
        foes = (foes + 0.1 * (c * prey * foes - d * foes) + 0.02 * torch.randn(N, generator=g)).clamp(0.01, 10)
        if k % 10 == 9:
            seen += [prey.log(), foes.log()]
    return torch.cat([theta, torch.stack(seen, 1)], 1)


class Posterior(nn.Module):
    """A mixture of eight Gaussians, with parameters from a network."""

    def __init__(self, seen=2 * STEPS // 10, k=8):
        super().__init__()
        self.net, self.k = nn.Sequential(nn.Linear(seen, 192), nn.ELU(), nn.Linear(192, 192), nn.ELU(), nn.Linear(192, k * 9)), k

    def forward(self, theta, seen):
        w, mean, log_std = self.net(seen).view(-1, self.k, 9).split([1, 4, 4], -1)
        z = (theta.unsqueeze(1) - mean) / log_std.exp()
        logp = -0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(w.squeeze(-1).log_softmax(1) + logp.sum(-1), 1)


def main():
    dist.init_process_group("gloo")
    start, width = time.time(), 4 + 2 * STEPS // 10
    if int(os.environ["RANK"]) == 1:
        g = torch.Generator().manual_seed(1)
        while time.time() - start < 205:
            dist.send(simulate(g), dst=0)
        dist.send(torch.full((N, width), math.inf), dst=0)
        return
    torch.manual_seed(0)
    model, batch, rounds = Posterior(), torch.empty(N, width), 0
    opt = torch.optim.Adam(model.parameters(), 5e-4)
    while True:
        dist.recv(batch, src=1)
        if math.isinf(batch[0, 0]):
            break
        for part in batch.split(64):
            nll = -model(part[:, :4], part[:, 4:]).mean()
            opt.zero_grad()
            nll.backward()
            opt.step()
        rounds += 1
        if rounds % 20 == 0:
            print(f"round {rounds:5d}  -log q(theta|x) = {nll.item():+.4f}", flush=True)


if __name__ == "__main__":
    main()
