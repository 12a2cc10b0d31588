"""No optimizer: weights changed by hand."""

import record
import torch

torch.manual_seed(0)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
weight, bias = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
for step in range(60):
    loss = (x @ weight + bias - y).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in (weight, bias):
            parameter -= 0.05 * parameter.grad
            parameter.grad.zero_()
    record.step(loss=loss.item())
    if step % 20 == 0:
        print(step, round(loss.item(), 4))
record.done(weight, bias)
