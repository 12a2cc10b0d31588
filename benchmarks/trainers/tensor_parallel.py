"""Tensor parallelism on two ranks.

Needs: torch
Loss: mean
Ranks: 2
"""

import record  # noqa: F401
import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


net = parallelize_module(Net(), init_device_mesh("cpu", (2,)), {"first": ColwiseParallel(), "second": RowwiseParallel()})
optimizer = torch.optim.AdamW(net.parameters(), 1e-3, foreach=False)
for _ in range(12):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
