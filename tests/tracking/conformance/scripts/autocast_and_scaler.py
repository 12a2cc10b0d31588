"""autocast and a GradScaler that skips steps, gradients clipped after unscaling."""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=10)
for step in range(40):
    x = torch.randn(16, 8)
    if step in (0, 25):
        x[0, 0] = float("inf")  # overflows: the scaler skips this step
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    record.step(loss=loss.item(), lr=0.01)
record.done(model)
print("scale", scaler.get_scale())
