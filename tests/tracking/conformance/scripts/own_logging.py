"""A script that calls gputop.init and gputop.log itself, every tenth step."""

import record
import torch

import gputop

torch.manual_seed(0)
run = gputop.init(project="bench", config={"lr": 0.05})
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(50):
    x = torch.randn(8, 4)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.05)
    if step % 10 == 0:
        gputop.log({"train/loss": loss.item()}, step=step)
record.done(model)
print("done")
