"""Folds of which something stays: the optimizers of earlier ones, or the one model, which is put back to where it began."""

import copy

import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
losses = []
shared = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), batch_size=4)


def train(model, optimizer, parts):
    for _ in range(2):
        total = 0.0
        for number, (x, y) in enumerate(shared, 1):
            loss = torch.nn.functional.mse_loss(model(x), y) / parts
            loss.backward()
            total += loss.item()
            if number % parts == 0:
                optimizer.step()
                optimizer.zero_grad()
                losses.append(total)
                total = 0.0


kept = []
for parts in (3, 1, 2):  # 4, 12 and 6 steps
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train(model, optimizer, parts)
    kept.append((model, optimizer))

trained = [model for model, _ in kept]
del kept, optimizer
model = torch.nn.Linear(4, 1)
beginning = copy.deepcopy(model.state_dict())
for parts in (3, 1):  # a new optimizer: 4 and 12 steps
    model.load_state_dict(beginning)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train(model, optimizer, parts)
best = copy.deepcopy(model.state_dict())
train(model, optimizer, 1)  # 12 steps
model.load_state_dict(best)  # which is no new training
train(model, optimizer, 1)  # 12 steps
with torch.no_grad():
    for name, weight in model.named_parameters():
        weight.copy_(beginning[name])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
train(model, optimizer, 2)  # 6 steps
model.load_state_dict(beginning)  # the same optimizer: 12 steps
train(model, optimizer, 1)

probe = torch.nn.Linear(4, 1)
probing = torch.optim.SGD(probe.parameters(), lr=0.05)  # made elsewhere, while another one stays: 12 steps
train(probe, probing, 1)
train(model, optimizer, 1)  # which goes on: 12 steps
say(len(losses), [*trained, model, probe], loss=losses)
