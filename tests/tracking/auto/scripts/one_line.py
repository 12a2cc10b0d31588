"""Trainings with two optimizers and a single line that runs backward, each a run of its own: on one loss, or on a loss each."""

import json
import sys
from itertools import pairwise

import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop

torch.set_num_threads(1)


def train(name, has_loader, turns):
    """Make the steps of each backward, such as "slow fast"; return the losses by the optimizers that stepped on them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    optimizers = {
        "slow": torch.optim.AdamW(model[0].parameters(), lr=1e-3),
        "fast": torch.optim.SGD(model[1].parameters(), lr=1e-3),
    }
    losses = []

    def update(inputs, stepping):
        loss = model(inputs).square().mean()
        loss.backward()
        for which in stepping.split():
            optimizers[which].step()
            optimizers[which].zero_grad()
        losses.append((stepping, loss.item()))

    if has_loader:
        # An iteration takes all the turns up to one of an optimizer that had one already.
        batches = [[turns[0]]]
        for before, turn in pairwise(turns):
            batches[-1].append(turn) if (before, turn) == ("slow", "fast") else batches.append([turn])
        data = DataLoader(TensorDataset(torch.randn(8 * len(batches), 4)), batch_size=8)
    else:
        batches = [[turn] for turn in turns]
        data = [(torch.randn(8, 4),) for _ in batches]
    with gputop.init(name=name):
        for (inputs,), batch in zip(data, batches, strict=True):
            for turn in batch:
                update(inputs, turn)
    return losses


cases = {
    "slow on every other": ["slow fast", "fast"] * 30,
    "slow on every third": ["slow fast", "fast", "fast"] * 20,
    "fast first": ["fast slow", "fast"] * 30,
    "in turn": ["slow", "fast"] * 30,
}
has_loader = sys.argv[1] == "loader"
if has_loader:  # else only the next step of the second optimizer shows that its first one belonged to the same iteration
    cases["in turn after a warm-up"] = ["slow"] * 6 + ["slow", "fast"] * 30
    cases["slow on every other, from the second on"] = ["fast", "slow fast"] * 30
print(json.dumps({name: train(name, has_loader, turns) for name, turns in cases.items()}))
