"""Ten kinds of yarn from photographs (refactored into a Trainer, v2)."""
import time

import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr):
        self.model, self.opt = model, torch.optim.SGD(model.parameters(), lr)

    def compute(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss.item()

    def update(self):
        self.opt.zero_grad()
        self.opt.step()


torch.manual_seed(2)
yarn = torch.randn(10, 3, 32, 32)
trainer = Trainer(nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(1568, 10)), 0.01)
begin, epoch = time.time(), 0
while time.time() - begin < 400:
    epoch, total = epoch + 1, 0.0
    for _ in range(25):
        y = torch.randint(0, 10, (64,))
        total += trainer.compute(yarn[y] + torch.randn(64, 3, 32, 32), y)
        trainer.update()
    print(f"epoch {epoch}: train_loss={total / 25:.4f} lr=0.01", flush=True)
