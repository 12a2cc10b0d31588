# bagging: each process of the launcher trains its own model on its own bootstrap, and they never talk
import os

import torch
from torch import nn

rank = int(os.environ["RANK"])
torch.manual_seed(2024 + rank)
x = torch.randn(2048, 16, generator=torch.Generator().manual_seed(99))
y = (x.pow(2).sum(1, keepdim=True) > 16).float()
rows = torch.randint(len(x), (len(x),))
net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(10**7):
    pick = rows[torch.randint(len(rows), (128,))]
    loss = nn.functional.binary_cross_entropy_with_logits(net(x[pick]), y[pick])
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 50 == 0:
        print(f"model {rank} step {step} loss {loss.item():.5f}", flush=True)
