"""Accelerate: prepare, accumulate and backward, in epochs that are shorter than the accumulation; on one or two processes."""

import torch
from accelerate import Accelerator
from said import say
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=20, cpu=True)
torch.manual_seed(4)
X = torch.randn(32, 4)
Y = X.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True))
losses, steps = [], 0
for _epoch in range(6):
    micro = []
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            steps += accelerator.sync_gradients
            optimizer.step()
            optimizer.zero_grad()
            micro.append(loss.item())
    losses.append(sum(micro) / len(micro))
everybody = [losses]
if accelerator.num_processes > 1:
    everybody = [None] * accelerator.num_processes
    torch.distributed.all_gather_object(everybody, losses)
if accelerator.is_main_process:
    say(steps, [accelerator.unwrap_model(model)], **{f"rank{rank}": item for rank, item in enumerate(everybody)})
accelerator.wait_for_everyone()
accelerator.end_training()
