"""LBFGS with a closure."""

import record
import torch

torch.manual_seed(0)
x = torch.randn(64, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
for step in range(12):

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    record.step(loss=loss.item(), lr=0.5)
    print(f"step {step} loss {loss.item():.5f}")
record.done(model)
