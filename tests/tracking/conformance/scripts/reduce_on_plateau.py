"""ReduceLROnPlateau on a validation loss, early stopping."""

import record
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(32, 4)
loader = DataLoader(TensorDataset(x, torch.randn(32, 1)), batch_size=16)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
best, bad = float("inf"), 0
for epoch in range(20):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=optimizer.param_groups[0]["lr"], epoch=epoch)
    with torch.no_grad():
        valid = (model(x + 0.1) - 0.5).square().mean().item()
    scheduler.step(valid)
    best, bad = (valid, 0) if valid < best else (best, bad + 1)
    print(f"{epoch} valid={valid:.4f} lr={optimizer.param_groups[0]['lr']:.3g}")
    if bad == 6:
        break
record.done(model)
