"""nn.DataParallel; without CUDA it hands its calls through."""

import torch
from said import say

torch.manual_seed(6)
model = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(6):
    inputs = torch.randn(10, 4)
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
say(len(losses), [model], loss=losses)
