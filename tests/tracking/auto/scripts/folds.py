"""Several trainings in one process: folds, one of which does not accumulate, and a second phase of the last model."""

import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
losses = []


def train(model, parts, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        total = 0.0
        for number, (x, y) in enumerate(loader, 1):
            loss = torch.nn.functional.mse_loss(model(x), y) / parts
            loss.backward()
            total += loss.item()
            if number % parts == 0:
                optimizer.step()
                optimizer.zero_grad()
                losses.append(total)
                total = 0.0


def loader_of(rows):
    return DataLoader(TensorDataset(torch.randn(rows, 4), torch.randn(rows, 1)), batch_size=4)


models = []
shared = loader_of(48)
for parts, loader in ((4, shared), (1, shared), (2, loader_of(24))):
    models.append(torch.nn.Linear(4, 1))
    train(models[-1], parts, loader)

optimizer = torch.optim.Adam(models[-1].parameters(), lr=0.01)
for x, y in loader_of(12):
    optimizer.zero_grad()
    loss = torch.nn.functional.l1_loss(models[-1](x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
say(len(losses), models, loss=losses)
