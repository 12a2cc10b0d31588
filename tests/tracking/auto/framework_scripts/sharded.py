"""fully_shard (FSDP2) on gloo, under torchrun."""

import torch
import torch.distributed as dist
from said import say
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(6)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
losses = []
for _step in range(6):
    inputs = torch.randn(8, 4)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
everybody = [None, None]
dist.all_gather_object(everybody, losses)
weights = {name: item.full_tensor() for name, item in model.state_dict().items()}
if rank == 0:
    whole = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    whole.load_state_dict(weights)
    say(len(losses), [whole], rank0=everybody[0], rank1=everybody[1])
dist.barrier()
dist.destroy_process_group()
