"""Bending of a clamped beam by a physics-informed network: Adam first, then L-BFGS, for one load after the other."""

from __future__ import annotations

import argparse
import math
import time

import torch
from torch import Tensor, nn


class Deflection(nn.Module):
    """A perceptron, multiplied so that both ends are clamped."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the deflection at each place."""
        return (x * (1 - x)) ** 2 * self.net(2 * x - 1)


def derivative(y: Tensor, x: Tensor) -> Tensor:
    """Differentiate once."""
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(net: nn.Module, x: Tensor, load: Tensor) -> Tensor:
    """Return the mean squared residual of EI w'''' = q."""
    w = net(x)
    for _ in range(4):
        w = derivative(w, x)
    return ((w - load) ** 2).mean()


def solve(number: int, args: argparse.Namespace, device: torch.device) -> float:
    """Train a network for one load; return the last residual."""
    torch.manual_seed(number)
    x = torch.rand(args.points, 1, device=device).requires_grad_()
    load = torch.sin(math.pi * (1 + number % 3) * x.detach()) + 0.3 * (number % 2)
    net = Deflection(args.width).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    began = time.time()
    for step in range(args.adam):
        loss = residual(net, x, load)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 20 == 0:
            print(f"load {number} adam {step:5d} residual {loss.item():.3e}", flush=True)
    lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=20, history_size=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        lbfgs.zero_grad()
        loss = residual(net, x, load)
        loss.backward()
        return loss

    for step in range(args.lbfgs):
        loss = lbfgs.step(closure)
        print(f"load {number} lbfgs {step:4d} residual {loss.item():.3e}", flush=True)
    print(f"load {number} done after {time.time() - began:.0f} s", flush=True)
    return loss.item()


def main() -> None:
    """Go through the loads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1500)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--adam", type=int, default=500)
    parser.add_argument("--lbfgs", type=int, default=30)
    parser.add_argument("--loads", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    worst = max(solve(number, args, device) for number in range(args.loads))
    print(f"worst residual {worst:.3e}")


if __name__ == "__main__":
    main()
