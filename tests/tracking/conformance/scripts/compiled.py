"""torch.compile with the eager backend."""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _step in range(40):
    x = torch.randn(16, 8)
    loss = torch.nn.functional.mse_loss(compiled(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.05)
record.done(model)
print("done")
