"""LBFGS: the optimizer calls a closure as often as it likes."""

import torch
from said import say

torch.manual_seed(1)
inputs = torch.randn(32, 4)
targets = inputs @ torch.randn(4, 1) + 0.5
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=4)
losses = []


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


for _ in range(6):
    losses.append(float(optimizer.step(closure)))
say(len(losses), [model], loss=losses)
