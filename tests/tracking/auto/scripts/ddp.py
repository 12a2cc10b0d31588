"""DistributedDataParallel on gloo, under torchrun."""

import torch
import torch.distributed as dist
from said import say
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(5)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
everybody = [None, None]
dist.all_gather_object(everybody, losses)
if rank == 0:
    say(len(losses), [model], rank0=everybody[0], rank1=everybody[1])
dist.barrier()  # the store of rank 0 has to outlive the last call of rank 1
dist.destroy_process_group()
