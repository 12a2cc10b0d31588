"""Leaves out the steps whose gradients are too large or not finite"""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
skipped = 0
for batch in range(120):
    x = torch.randn(16, 6)
    y = x.sum(1, keepdim=True)
    if batch % 9 == 7:
        y = y * 100
    if batch % 27 > 24:  # two in a row
        y = y * float("inf")
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(set_to_none=batch < 60)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not norm < 30.0:
        skipped += 1
        continue
    optimizer.step()
    record.step(loss=loss.item(), lr=0.01)
record.done(model)
print(f"skipped {skipped} of {batch + 1} batches")
