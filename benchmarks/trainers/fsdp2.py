"""FSDP2 with accumulation on two ranks.

Needs: torch
Loss: sum
Ranks: 2
"""

import record  # noqa: F401
import torch
from torch import distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU()) for _ in range(3)]
net = torch.nn.Sequential(*layers, torch.nn.Linear(32, 4))
for layer in net:
    fully_shard(layer)
fully_shard(net)
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
torch.manual_seed(dist.get_rank())
for _ in range(12):
    for micro in range(3):
        net.set_requires_gradient_sync(micro == 2)
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 32)), torch.randint(0, 4, (8,))) / 3
        loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
