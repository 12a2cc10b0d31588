"""torch.compile of a whole training step, the optimizer's included, and of an optimizer alone."""

import torch
import torch._dynamo.utils
from said import say

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []


def step(inputs):
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


for _ in range(2):
    losses.append(step(torch.randn(10, 4)).item())
whole = torch.compile(step, backend="eager")
for _ in range(4):
    losses.append(whole(torch.randn(10, 4)).item())
compiled = torch.compile(optimizer.step, backend="eager", fullgraph=True)
model(torch.randn(3, 4)).mean().backward()
compiled()
counters = torch._dynamo.utils.counters
print({name: dict(counters[name]) for name in ("frames", "graph_break", "recompiles", "stats")})
say(len(losses), [model], loss=losses)
