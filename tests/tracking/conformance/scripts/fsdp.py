"""FSDP2: fully_shard."""

import record
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
torch.manual_seed(rank)
for _step in range(25):
    x = torch.randn(8, 4)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.01)
record.done(*[parameter.to_local() for parameter in model.parameters()])
dist.destroy_process_group()
