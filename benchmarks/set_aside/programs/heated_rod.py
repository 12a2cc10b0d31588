"""A physics-informed network for the temperature of a heated rod: u_t = k u_xx, u(x, 0) = sin(pi x), cold ends.

For each conductivity: some steps of Adam, then L-BFGS, as usual.
"""

from __future__ import annotations

import argparse
import math
from itertools import pairwise

import torch
from torch import nn


class Rod(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        sizes = [2, *[width] * depth, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        for layer in self.layers:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = torch.cat([x, t], 1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)


def derivative(u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


def residuals(net: Rod, points: torch.Tensor, k: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, t = points[:, :1].clone().requires_grad_(), points[:, 1:].clone().requires_grad_()
    u = net(x, t)
    equation = derivative(u, t) - k * derivative(derivative(u, x), x)
    zero = torch.zeros_like(t)
    start = net(points[:, :1], zero) - torch.sin(math.pi * points[:, :1])
    ends = torch.cat([net(zero, points[:, 1:]), net(zero + 1, points[:, 1:])])
    return equation.square().mean(), start.square().mean(), ends.square().mean()


def error(net: Rod, k: float) -> float:
    axis = torch.linspace(0, 1, 41)
    x, t = (a.reshape(-1, 1) for a in torch.meshgrid(axis, axis, indexing="ij"))
    with torch.no_grad():
        exact = torch.exp(-k * math.pi**2 * t) * torch.sin(math.pi * x)
        return float((net(x, t) - exact).norm() / exact.norm())


def solve(k: float, args: argparse.Namespace) -> None:
    net = Rod(args.width, args.depth)
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(1, args.adam + 1):
        adam.zero_grad()
        equation, start, ends = residuals(net, torch.rand(args.points, 2), k)
        loss = equation + 10 * start + 10 * ends
        loss.backward()
        adam.step()
        if step % 20 == 0:
            print(f"adam {step:4d} loss {loss:.3e} (pde {equation:.2e} ic {start:.2e} bc {ends:.2e})", flush=True)

    points = torch.rand(args.points, 2)
    lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=20, history_size=30, line_search_fn="strong_wolfe")
    calls = 0

    def closure() -> torch.Tensor:
        nonlocal calls
        calls += 1
        lbfgs.zero_grad()
        equation, start, ends = residuals(net, points, k)
        loss = equation + 10 * start + 10 * ends
        loss.backward()
        return loss

    for outer in range(1, args.lbfgs + 1):
        loss = lbfgs.step(closure)
        print(f"l-bfgs {outer:3d} loss {loss.item():.3e}, {calls} evaluations, relative error {error(net, k):.2e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1500)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--adam", type=int, default=400)
    parser.add_argument("--lbfgs", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(1)

    for number in range(100):
        k = 0.05 * 1.15**number
        torch.manual_seed(number)
        print(f"\n=== conductivity {k:.4f}")
        solve(k, args)


if __name__ == "__main__":
    main()
