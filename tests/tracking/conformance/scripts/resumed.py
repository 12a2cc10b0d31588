"""Resumes from a checkpoint of the model, the optimizer and the scheduler."""

import io

import record
import torch


def build():
    model = torch.nn.Linear(5, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)


def train(model, optimizer, scheduler, steps):
    for _ in range(steps):
        x = torch.randn(8, 5)
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=scheduler.get_last_lr()[0])
        scheduler.step()


torch.manual_seed(0)
parts = build()
train(*parts, 15)
file = io.BytesIO()
torch.save([part.state_dict() for part in parts], file)
file.seek(0)
parts = build()
for part, state in zip(parts, torch.load(file), strict=True):
    part.load_state_dict(state)
train(*parts, 15)
record.done(parts[0])
print("done")
