"""Metric learning: sizes grow in the first epochs, and hard negatives are looked for in everything seen so far."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 32))
opt = torch.optim.Adam(net.parameters(), 1e-4)
bank = torch.empty(0, 64)
step = 0
while True:
    n = min(96, 32 + 16 * (step // 60))
    a = torch.randn(n, 64)
    p = a + .2 * torch.randn(n, 64)
    bank = torch.cat([bank, a])
    with torch.no_grad():
        e = F.normalize(net(bank), dim=1)
        hard = (F.normalize(net(a), dim=1) @ e.T - 2 * torch.eye(n, len(bank))).topk(2, dim=1).indices[:, 1]
    loss = F.triplet_margin_loss(net(a), net(p), net(bank[hard]))
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 20 == 0:
        print(f"iter {step} n {n} triplet {loss.item():.4f}", flush=True)
