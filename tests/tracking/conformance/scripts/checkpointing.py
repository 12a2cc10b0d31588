"""Activation checkpointing, reentrant and not."""

import record
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(4)])
head = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam([*blocks.parameters(), *head.parameters()], lr=0.01)
for _step in range(40):
    x = torch.randn(16, 8, requires_grad=True)
    hidden = x
    for number, block in enumerate(blocks):
        hidden = checkpoint(block, hidden, use_reentrant=number % 2 == 0)
    loss = torch.nn.functional.mse_loss(head(hidden), x.detach().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.01)
record.done(blocks, head)
print("done")
