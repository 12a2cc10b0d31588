"""Trainings with two optimizers and no loader, each a run of its own: in turn, by phases, and in each iteration."""

import json

import torch

import gputop

torch.set_num_threads(1)


def train(name, sequence):
    """Step the optimizers a and b in this order; return the losses of each."""
    torch.manual_seed(0)
    weights = {which: torch.nn.Parameter(torch.randn(4)) for which in "ab"}
    optimizers = {which: torch.optim.SGD([weights[which]], lr=0.01) for which in "ab"}
    losses = {"a": [], "b": []}
    with gputop.init(name=name):
        for which in sequence:
            optimizers[which].zero_grad()
            if which == "a":
                a = weights["a"].square().sum() + 1
                a.backward()
                losses["a"].append(a.item())
            else:
                b = weights["b"].square().sum() + 2
                b.backward()
                losses["b"].append(b.item())
            optimizers[which].step()
    return losses


cases = {
    "in turn": "aaaaabbbbb",
    "by phases": "aaabbbaaabbb",
    "in each iteration": "abababab",
    "after a warm-up": "aaaabababab",
}
print(json.dumps({name: [sequence, train(name, sequence)] for name, sequence in cases.items()}))
