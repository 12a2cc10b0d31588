"""What tracking puts into the place of torch's and Python's own: pickled, inspected and watched."""

import functools
import inspect
import json
import os
import pickle
import sys
import traceback

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

found = {}


class Counts(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        counts[str(function)] = counts.get(str(function), 0) + 1
        return function(*args, **(kwargs or {}))


class Asked(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        asked.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        asked.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


class Broken(torch.Tensor):
    @property
    def is_cpu(self):
        raise RuntimeError("nobody may ask")


class Sharded(torch.Tensor):
    """A tensor that is not here, as a DTensor: a sum of it would be a collective operation of all ranks."""

    @staticmethod
    def __new__(cls, local):
        return torch.Tensor._make_wrapper_subclass(cls, local.size(), dtype=local.dtype)

    def __init__(self, local):
        self.local = local

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        asked.append(str(function))
        result = function(*(arg.local if isinstance(arg, Sharded) else arg for arg in args), **(kwargs or {}))
        return Sharded(result) if isinstance(result, torch.Tensor) else result


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(context, sharded):
        return sharded.local.clone()

    @staticmethod
    def backward(context, gradient):
        return Sharded(gradient)


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
asked = []
weight = torch.nn.Parameter(Sharded(torch.ones(2, 3)))
for _ in range(4):
    Gather.apply(weight).square().sum().backward()
    weight.data.local -= 0.1 * weight.grad.local
    weight.grad = None
found["asked of what is sharded"] = {name: asked.count(name) for name in sorted(set(asked))}
found["calls"] = [list(train(kind(4, 1), 3)) for kind in (Partial, Described, Static)]
for steps in (1, 40):
    model, counts = torch.nn.Linear(4, 1), {}
    list(train(model, 12))
    with Counts():
        list(train(model, steps))
    found[f"operations of {steps}"] = counts


def train_scaled(model, kind, steps):
    """Train from a loader, with a scaler and a division; inputs and loss are of a class."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    data = torch.utils.data.TensorDataset(torch.arange(32.0).view(8, 4))
    for number, (inputs,) in enumerate(torch.utils.data.DataLoader(data, batch_size=1, sampler=[0, 3] * steps)):
        loss = model(inputs.as_subclass(kind)).sum() / torch.tensor(2.0)
        scaler.scale(loss).backward()
        if number % 2:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return [weight.tolist() for weight in model.parameters()]


model = torch.nn.Sequential(torch.nn.Linear(4, 1))
for _ in range(2):
    model(torch.ones(1, 4)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
found["traced"] = torch.fx.symbolic_trace(torch.nn.Sequential(model, torch.nn.ReLU())).code
for kind in (torch.Tensor, Loud, Broken):
    for steps in (3, 60):
        counts, asked = {}, []
        model = torch.nn.Linear(4, 1)
        with Counts(), Asked():
            found[f"{kind.__name__} of {steps}"] = train_scaled(model, kind, steps), counts
        found[f"asked {kind.__name__} of {steps}"] = {name: asked.count(name) for name in sorted(set(asked))}
        asked = []
        found[f"{kind.__name__} of {steps}, no mode"] = train_scaled(model, kind, steps), asked
for function in (torch.save, sys.exit, os._exit, sys.excepthook, torch.autograd.backward, traceback.print_exc):
    name = function.__name__
    found[f"pickled {name}"] = pickle.loads(pickle.dumps(function)) is function
    found[f"signature {name}"] = str(inspect.signature(function))
print(json.dumps(found))
