"""A plain loop over one batch."""

import record
import torch

torch.manual_seed(0)
x = torch.randn(64, 8)
y = x.sum(1, keepdim=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for i in range(60):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.05)
    if i % 10 == 0:
        print(f"step {i}: loss {loss.item():.4f}")
record.done(model)
