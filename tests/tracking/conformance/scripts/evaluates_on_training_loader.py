"""Looks at a first batch, and measures the accuracy on the training loader after each epoch."""

import record
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(48, 6)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=8, shuffle=True)
inputs, targets = next(iter(loader))
print("a batch:", tuple(inputs.shape), tuple(targets.shape))
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    model.train()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=0.01, epoch=epoch)
    model.eval()
    right = sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in loader)
    with torch.no_grad():
        error = sum(torch.nn.functional.cross_entropy(model(inputs), targets).item() for inputs, targets in loader)
    print(f"epoch {epoch}: {right} of 48, {error / len(loader):.4f}")
record.done(model)
