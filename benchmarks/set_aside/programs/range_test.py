"""LR range test, then training. First the rate rises by 2 % a step until the loss has exploded; a tenth of the best one is used."""
import copy
import itertools
import sys
import time

import torch
from torch import nn


def mixtures(n, kinds=16):
    y = torch.randint(0, kinds, (n,))
    freq = 2 + y.float().view(-1, 1) * 1.5
    t = torch.linspace(0, 6.28, 160)
    return (torch.sin(freq * t + 6.28 * torch.rand(n, 1)) + 0.8 * torch.randn(n, 160)).unsqueeze(1), y


def make():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv1d(1, 32, 15, 2), nn.ReLU(), nn.Conv1d(32, 64, 9, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(256, 16))


def steps(model, optimizer):
    while True:
        x, y = mixtures(32)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


start = time.time()
model = make()
state = copy.deepcopy(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
curve, best = [], float("inf")
for i, loss in enumerate(steps(model, optimizer)):
    lr = optimizer.param_groups[0]["lr"]
    curve.append((lr, loss))
    if i % 10 == 0:
        print(f"[range test] lr {lr:.2e} loss {loss:.3f}", flush=True)
    best = min(best, loss)
    if i > 100 and loss > 4 * best and loss > 6:
        break
    optimizer.param_groups[0]["lr"] = lr * 1.02
chosen = min(curve, key=lambda point: point[1])[0] / 10
print(f"[range test] done: exploded at {lr:.2e}, using {chosen:.2e}", flush=True)
model.load_state_dict(state)
optimizer = torch.optim.SGD(model.parameters(), lr=chosen, momentum=0.9, nesterov=True)
for i in itertools.count(1):
    loss = next(loop) if i > 1 else next(loop := steps(model, optimizer))
    if i % 20 == 0:
        print(f"[train] iteration {i} loss {loss:.3f}", flush=True)
    if time.time() - start > 210:
        sys.exit()
