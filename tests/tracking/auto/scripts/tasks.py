"""A fresh model and a fresh optimizer for each of many tasks, as meta-learning has; how often all live objects are listed."""

import copy
import gc
import sys

import torch

calls, original = 0, gc.get_objects


def get_objects(*arguments):
    global calls
    calls += 1
    return original(*arguments)


gc.get_objects = get_objects
model = torch.nn.Linear(4, 1)
for _ in range(60):
    own = copy.deepcopy(model)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        own(torch.ones(2, 4)).sum().backward()
        optimizer.step()
tracked = sys.modules.get("gputop.tracking.auto.install")
print(calls, len(tracked.tracked().models.tops))
