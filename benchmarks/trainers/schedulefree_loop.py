"""A loop with a schedule-free optimizer, which is switched between training and evaluation.

Needs: schedulefree
Loss: mean
"""

import record  # noqa: F401
import schedulefree
import torch

model = torch.nn.Linear(8, 1)
optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=1e-2, warmup_steps=10)
x = torch.randn(256, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=32)
for epoch in range(6):
    model.train()
    optimizer.train()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    model.eval()
    optimizer.eval()
    with torch.no_grad():
        print(epoch, torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).item())
