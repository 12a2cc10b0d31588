"""Trainings whose modules no search of the live objects shows: the script froze them. Each is a run of its own."""

import gc

import torch

import gputop

torch.set_num_threads(1)
called = torch.nn.Module.__call__


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, inputs):
        return self.second(torch.relu(self.first(inputs)))


class Other(Model):
    """What the second training of a run trains."""


def train(name, forward):
    with gputop.init(name=name):
        train_one(Model, forward)


def train_one(cls, forward, steps=24):
    torch.manual_seed(0)
    model = cls()
    gc.freeze()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = forward(model, torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()


def in_evaluation(model, inputs):
    model.eval()
    return model(inputs)


train("called", lambda model, inputs: model(inputs))
train("its parts", lambda model, inputs: model.forward(inputs))
train("never", in_evaluation)
with gputop.init(name="one after another"):
    train_one(Model, lambda model, inputs: model(inputs))
    train_one(Other, lambda model, inputs: model(inputs), steps=400)
with gputop.init(name="then none"):
    train_one(Model, lambda model, inputs: model(inputs))
    train_one(Other, in_evaluation, steps=400)
print(torch.nn.Module.__call__ is called)
