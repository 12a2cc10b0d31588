"""Activation checkpointing of the reentrant kind: each block runs a backward of its own inside of the training's backward."""

import torch
from said import say
from torch.utils.checkpoint import checkpoint

torch.manual_seed(5)
blocks = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(4)])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = blocks

    def forward(self, inputs):
        for block in self.blocks:
            inputs = checkpoint(block, inputs, use_reentrant=True)
        # A loss in a checkpointed part: the inner backward runs on a number too.
        return 2 * checkpoint(lambda last: last.pow(2).mean(), inputs, use_reentrant=True)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for _ in range(20):
    loss = model(torch.randn(16, 8, requires_grad=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
say(len(losses), [model], loss=losses)
