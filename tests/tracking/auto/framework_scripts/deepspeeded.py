"""DeepSpeed: deepspeed.initialize, engine.backward and engine.step, with accumulation and ZeRO-1; by torchrun, on the CPU."""

import os
import sys

import deepspeed
import torch
from said import say

torch.manual_seed(4)
X = torch.randn(64, 4)
Y = X.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1)
engine, optimizer, _, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": int(sys.argv[1])},
        "zero_allow_untested_optimizer": True,
    },
    dist_init_required=True,
)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
micro, steps = [], 0
for _epoch in range(2):
    for start in range(rank * 4, len(X), 4 * world):
        loss = torch.nn.functional.mse_loss(engine(X[start : start + 4]), Y[start : start + 4])
        engine.backward(loss)
        steps += engine.is_gradient_accumulation_boundary()
        engine.step()
        micro.append(loss.item())
losses = [(a + b) / 2 for a, b in zip(micro[::2], micro[1::2], strict=True)]
everybody = [None] * world
torch.distributed.all_gather_object(everybody, losses)
if rank == 0:
    say(steps, [engine.module], **{f"rank{number}": item for number, item in enumerate(everybody)})
torch.distributed.barrier()
torch.distributed.destroy_process_group()
