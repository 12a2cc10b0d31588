"""Mixed precision on the CPU: bfloat16 autocast, and a GradScaler that makes the loss larger and skips a step."""

import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
loader = DataLoader(TensorDataset(torch.randn(48, 8), torch.randn(48, 1)), batch_size=8)
losses = []
for number, (inputs, targets) in enumerate(loader):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(model(inputs), targets.bfloat16()).float()
    scaler.scale(loss).backward()
    if number == 2:
        model[0].weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
for _ in range(4):
    # Accumulation under a scaler, each loss divided by its number.
    optimizer.zero_grad()
    group = []
    for _ in range(2):
        loss = model(torch.randn(8, 8)).square().mean()
        group.append(loss.item())
        scaler.scale(loss / 2).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(sum(group) / 2)
say(len(losses), [model], loss=losses)
