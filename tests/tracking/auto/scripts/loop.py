"""A plain loop: a loader with workers, a schedule, an evaluation and a checkpoint after each epoch."""

import sys

import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
data = TensorDataset(torch.randn(40, 8), torch.randint(0, 3, (40,)))
train = DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
test = DataLoader(data, batch_size=20)
losses = []
for epoch in range(3):
    model.train()
    for inputs, labels in train:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(inputs).argmax(1) == labels).sum().item() for inputs, labels in test)
    torch.save(model, sys.argv[1] + f"/model-{epoch}.pt")
    print(epoch, right)
say(len(losses), [model], loss=losses)
