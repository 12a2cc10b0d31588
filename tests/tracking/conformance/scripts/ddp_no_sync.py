"""DDP with gradient accumulation under no_sync."""

import record
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _step in range(20):
    micro = []
    with model.no_sync():
        for _ in range(2):
            x = torch.randn(8, 4)
            loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / 3
            loss.backward()
            micro.append(loss.item() * 3)
    x = torch.randn(8, 4)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / 3
    loss.backward()
    micro.append(loss.item() * 3)
    optimizer.step()
    optimizer.zero_grad()
    record.step(loss=sum(micro) / 3, lr=0.05)
record.done(model)
dist.destroy_process_group()
