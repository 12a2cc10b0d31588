"""A script written for wandb that imports gputop as wandb."""

import record
import torch

import gputop as wandb

torch.manual_seed(0)
wandb.init(project="bench", config={"epochs": 3}, tags=["test"])
model = torch.nn.Linear(4, 1)
wandb.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(wandb.config.epochs):
    for _ in range(12):
        x = torch.randn(8, 4)
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=0.05)
    wandb.log({"epoch": epoch, "epoch_loss": loss.item()})
wandb.finish()
record.done(model)
print("done")
