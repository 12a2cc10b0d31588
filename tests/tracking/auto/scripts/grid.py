"""Ever larger models, trained one after another: ten in a moment, the last of them for long; then runs of their own."""

import copy
import json
import sys
import time

import torch

import gputop

torch.manual_seed(5)


def training(width):
    model = torch.nn.Linear(width, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        model(torch.ones(2, width)).sum().backward()
        optimizer.step()

    return step


def facts():
    found = copy.deepcopy(sys.modules["gputop.tracking.auto.install"].tracked().training.run.facts)
    return {name: found.get(name) for name in ("model", "optimizer")}


said = []
for width in range(1, 11):
    step = training(width)
    for _ in range(3):
        step()
    said.append(facts())
sys.modules["gputop.tracking.auto.models.searches"].WORTH_A_SEARCH = 0  # it has lasted
ends = time.monotonic() + 30
while facts()["model"] is None and time.monotonic() < ends:
    step()
for _ in range(20):
    step()
said.append(facts())
for width in (20, 21):
    run = gputop.init(name=str(width))
    step = training(width)
    for _ in range(3):
        step()
    said.append(facts())
    run.finish()
print(json.dumps(said))
