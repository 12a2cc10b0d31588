"""A loop that forks after its fourth batch, and whose data set waits, at its ninth, until a file is there."""

import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

GO = Path(sys.argv[1])


class Slow(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        while index == 8 and not GO.exists():
            time.sleep(0.02)
        return torch.ones(4) * index


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Slow(), batch_size=1):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if batch[0, 0] == 3:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
print("over", flush=True)
input()
