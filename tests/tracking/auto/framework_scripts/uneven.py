"""Ranks of unequal work, sharded by the way that is named: fully_shard (FSDP2), fsdp (FullyShardedDataParallel), deepspeed."""

import sys

import torch
import torch.distributed as dist

kind, steps = sys.argv[1], 12
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(6)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
engine = None
if kind == "fully_shard":
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
elif kind == "fsdp":
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
elif kind.startswith("deepspeed"):
    import deepspeed

    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": int(kind[-1])},
            "zero_allow_untested_optimizer": True,
        },
    )
    model = engine
optimizer = None if engine is not None else torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(steps):
    inputs = torch.ones(8 * (rank + 1), 4)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    if engine is not None:
        engine.backward(loss)
        engine.step()
    else:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
