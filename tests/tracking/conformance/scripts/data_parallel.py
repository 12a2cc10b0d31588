"""nn.DataParallel, which on a CPU passes its calls on."""

import record
import torch

torch.manual_seed(0)
model = torch.nn.DataParallel(torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(40):
    x = torch.randn(16, 8)
    loss = torch.nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.1)
record.done(model)
print("done")
