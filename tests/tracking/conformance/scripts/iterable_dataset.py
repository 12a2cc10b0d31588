"""An endless IterableDataset, stopped after a number of steps."""

import itertools

import record
import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        while True:
            x = torch.randn(4, generator=generator)
            yield x, x.sum().unsqueeze(0)


torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for inputs, targets in itertools.islice(DataLoader(Stream(), batch_size=8), 50):
    loss = torch.nn.functional.smooth_l1_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.02)
record.done(model)
print("done")
