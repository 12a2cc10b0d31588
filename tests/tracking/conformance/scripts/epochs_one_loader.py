"""Epochs over one loader with workers, an LR schedule per epoch."""

import record
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True, num_workers=2)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for epoch in range(6):
        total = 0.0
        for inputs, targets in loader:
            loss = torch.nn.functional.l1_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            record.step(loss=loss.item(), lr=optimizer.param_groups[0]["lr"], epoch=epoch)
        scheduler.step()
        print(f"Epoch {epoch + 1}/6, loss: {total / len(loader):.4f}")
    record.done(model)
