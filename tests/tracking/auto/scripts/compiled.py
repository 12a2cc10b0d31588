"""torch.compile: of a model, and of its evaluation and the model again when training has long begun."""

import torch
import torch._dynamo.utils
from said import say

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
fast = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []


def step(net, inputs):
    loss = net(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


for _ in range(5):
    step(fast, torch.randn(10, 4))


@torch.compile(backend="eager", fullgraph=True)
def check(inputs):
    return model(inputs).abs().max()


with torch.no_grad():
    print(check(torch.randn(6, 4)).item())
later = torch.compile(model, backend="eager", fullgraph=True)
for _ in range(3):
    step(later, torch.randn(10, 4))
counters = torch._dynamo.utils.counters
print({name: dict(counters[name]) for name in ("frames", "graph_break", "recompiles", "stats")})
say(len(losses), [model], loss=losses)
