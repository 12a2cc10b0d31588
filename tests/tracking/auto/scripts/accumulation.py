"""Gradient accumulation over four batches, the last group of an epoch being a smaller one."""

import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
EVERY = 4
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(60, 6), torch.randn(60, 1)), batch_size=6)
losses, group = [], []
for _ in range(2):
    for number, (inputs, targets) in enumerate(loader, 1):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        group.append(loss.item())
        (loss / EVERY).backward()
        if number % EVERY == 0 or number == len(loader):
            optimizer.step()
            optimizer.zero_grad()
            losses.append(sum(group) / len(group))
            group = []
say(len(losses), [model], loss=losses)
