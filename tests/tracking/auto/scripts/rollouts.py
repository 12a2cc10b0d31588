"""Reinforcement learning: each step is trained on what forwards without gradients have collected; evaluated once."""

import torch
from said import say

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []


def rollout(length):
    state = torch.randn(4)
    with torch.no_grad():
        for _ in range(length):
            state = model(state).tanh()
    return state


for step in range(40):
    if step == 30:
        rollout(2000)
    target = rollout(20)
    loss = torch.nn.functional.mse_loss(model(torch.randn(8, 4)), target.expand(8, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
say(len(losses), [model], loss=losses)
