"""Epochs with a validation, the best weights saved."""

import os
import tempfile

import record
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 8)
data = TensorDataset(x, (x.sum(1) > 0).long())
train, valid = torch.utils.data.random_split(data, [64, 32])
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = torch.nn.CrossEntropyLoss()
best = 0.0
with tempfile.TemporaryDirectory() as directory:
    for epoch in range(5):
        model.train()
        for inputs, labels in DataLoader(train, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            record.step(loss=loss.item(), lr=0.01, epoch=epoch)
        model.eval()
        with torch.no_grad():
            right = sum((model(inputs).argmax(1) == labels).sum().item() for inputs, labels in DataLoader(valid, batch_size=8))
        if right > best:
            best = right
            torch.save(model.state_dict(), os.path.join(directory, "best.pt"))
        print(f"epoch {epoch}: valid accuracy {right / len(valid):.3f}")
record.done(model)
