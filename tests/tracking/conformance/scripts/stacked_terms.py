"""Gradient accumulation over a sum of stacked terms, fewer of them at first."""

import record
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.002)


def terms(inputs, targets):
    found = torch.zeros(3)
    output = model(inputs)
    found[0] = torch.nn.functional.mse_loss(output, targets)
    found[1] = torch.nn.functional.l1_loss(output, targets)
    found[2] = output.square().mean()
    found[0] *= 7.5
    found[1] *= 0.5
    return found * len(inputs)


since = 0
micro = []
for epoch in range(4):
    for inputs, targets in loader:
        loss = terms(inputs, targets).sum()
        loss.backward()
        micro.append(loss.item())
        if len(micro) >= min(4, 1 + since // 2):
            optimizer.step()
            optimizer.zero_grad()
            record.step(loss=sum(micro) / len(micro), lr=0.002)
            micro = []
            since += 1
    print(f"epoch {epoch}: {loss.item():.4f}")
record.done(model)
