"""Eight agents in one training, each with an optimizer; two more join, and one later. A forward takes 10 ms at least."""

import json
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


class Slow(torch.nn.Linear):
    def forward(self, inputs):
        time.sleep(0.01)
        return super().forward(inputs)


def agent():
    model = Slow(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def searches(worth):
    """Let a search be put off for good, or be due at once."""
    sys.modules["gputop.tracking.auto.models.searches"].WORTH_A_SEARCH = worth


def train_until_found():
    """Train until the modules of all agents are known, and two steps more: one that begins so, and one for its record."""
    searches(0)
    ends = time.monotonic() + 60
    while sys.modules["gputop.tracking.auto.install"].tracked().models.searches.misses_modules and time.monotonic() < ends:
        train(1)
    train(2)


def train(steps):
    for _, (inputs,) in zip(range(steps), loader, strict=False):
        for number, (model, optimizer) in enumerate(agents):
            optimizer.zero_grad()
            loss = model(inputs).sum()
            loss.backward()
            optimizer.step()
            losses[number].append(loss.item())


torch.manual_seed(3)
losses = [[] for _ in range(11)]
loader = DataLoader(TensorDataset(torch.randn(16, 2)), batch_size=2)
agents = [agent() for _ in range(10)]
agents, others = agents[:8], agents[8:]
train(1)
searches(1e9)
agents += others
train(3)
train_until_found()
joined = len(losses[0])
searches(1e9)
agents.append(agent())
train(3)
train_until_found()
print(json.dumps([joined, losses]))
