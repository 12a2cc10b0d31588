"""What tracking puts into the place of torch's and Python's own: pickled, inspected and watched."""

import functools
import inspect
import json
import os
import pickle
import sys
import traceback

import torch
from torch.utils._python_dispatch import TorchDispatchMode

found = {}


class Counts(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        counts[str(function)] = counts.get(str(function), 0) + 1
        return function(*args, **(kwargs or {}))


class Bound:
    def __get__(self, instance, owner):
        return lambda inputs: torch.nn.Module.__call__(instance, inputs)


class Partial(torch.nn.Linear):
    __call__ = functools.partial(torch.neg)


class Described(torch.nn.Linear):
    __call__ = Bound()


class Static(torch.nn.Linear):
    @staticmethod
    def __call__(inputs):
        return inputs * 3


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.linear(torch.ones(2, 4), model.weight, model.bias).sum().backward()
        optimizer.step()
        yield model(torch.ones(1, 4)).tolist() if type(model) is not torch.nn.Linear else None


torch.manual_seed(0)
found["calls"] = [list(train(kind(4, 1), 3)) for kind in (Partial, Described, Static)]
for steps in (1, 40):
    model, counts = torch.nn.Linear(4, 1), {}
    list(train(model, 12))
    with Counts():
        list(train(model, steps))
    found[f"operations of {steps}"] = counts
for function in (torch.save, sys.exit, os._exit, sys.excepthook, torch.autograd.backward, traceback.print_exc):
    name = function.__name__
    found[f"pickled {name}"] = pickle.loads(pickle.dumps(function)) is function
    found[f"signature {name}"] = str(inspect.signature(function))
print(json.dumps(found))
