"""Gradient accumulation, each loss divided by the number."""

import record
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
accumulate = 4
for epoch in range(4):
    micro = []
    for i, (inputs, targets) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        micro.append(loss.item())
        (loss / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            record.step(loss=sum(micro) / len(micro), lr=0.05, epoch=epoch)
            micro = []
    print(f"epoch {epoch} done")
record.done(model)
