"""Gradient accumulation over 8 batches, and a cosine schedule over one-cycle, stepped once per update. Healthy."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(40, 300), nn.GELU(), nn.Linear(300, 300), nn.GELU(), nn.Linear(300, 5))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=100_000)
micro = update = 0
while True:
    x = torch.randn(48, 40)
    loss = nn.functional.cross_entropy(net(x), (x[:, :5] + x[:, 5:10].abs()).argmax(1))
    (loss / 8).backward(); micro += 1
    if micro % 8 == 0:
        opt.step(); sched.step(); opt.zero_grad(); update += 1
        if update % 25 == 0: print(f"update {update} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
