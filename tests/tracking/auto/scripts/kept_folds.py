"""Folds that reset one model and keep every optimizer: one after the other, or each a run of its own."""

import sys

import torch
from said import say

import gputop

torch.manual_seed(3)
model = torch.nn.Linear(4, 1)
first = {name: value.clone() for name, value in model.state_dict().items()}
x, y = torch.randn(32, 4), torch.randn(32, 1)
folds, optimizers = [], []
for fold in range(3):
    model.load_state_dict(first)
    optimizers.append(torch.optim.SGD(model.parameters(), lr=0.05 + fold / 100))
    losses = []
    for _ in range(30):
        optimizers[-1].zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizers[-1].step()
        losses.append(loss.item())
    folds.append(losses)
    if sys.argv[1] == "apart":
        gputop.finish()
    elif sys.argv[1] == "apart by a method":
        gputop.run.finish()
    elif sys.argv[1] == "apart by a block":
        with gputop.run:
            pass
say(90, [model], loss=folds)
