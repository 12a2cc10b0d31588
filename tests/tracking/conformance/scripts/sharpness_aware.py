"""Sharpness-aware minimization: two backwards from two lines for one step."""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(30):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        moves = [0.05 * parameter.grad / (parameter.grad.norm() + 1e-12) for parameter in model.parameters()]
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter += move
    optimizer.zero_grad()
    perturbed = torch.nn.functional.cross_entropy(model(x), y)
    perturbed.backward()
    with torch.no_grad():
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter -= move
    optimizer.step()
    optimizer.zero_grad()
    record.step(loss=loss.item(), perturbed=perturbed.item(), lr=0.05)
record.done(model)
print("done")
