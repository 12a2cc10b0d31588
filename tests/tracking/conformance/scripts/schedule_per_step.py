"""Warm-up and cosine decay: an LR schedule per step, gradients clipped."""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[10])
for _step in range(60):
    x = torch.randn(16, 8)
    loss = (model(x) - x.prod(1, keepdim=True)).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    record.step(loss=loss.item(), lr=scheduler.get_last_lr()[0])
    scheduler.step()
record.done(model)
print("done")
