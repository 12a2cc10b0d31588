"""Gradients by autograd.grad, set by hand, then an optimizer's step."""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(40):
    x = torch.randn(16, 6)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    record.step(loss=loss.item(), lr=0.05)
record.done(model)
print("done")
