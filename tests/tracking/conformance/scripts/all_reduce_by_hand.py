"""Data parallelism by hand: gradients all-reduced."""

import record
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _step in range(30):
    x = torch.randn(16, 4)[rank::2]
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2
    optimizer.step()
    record.step(loss=loss.item(), lr=0.05)
record.done(model)
dist.destroy_process_group()
