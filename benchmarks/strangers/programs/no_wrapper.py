import os
import torch, torch.distributed as dist
import torch.nn as nn

dist.init_process_group('gloo')
rank = dist.get_rank()
torch.manual_seed(rank)
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 10))
# TODO wrap
opt = torch.optim.AdamW(net.parameters(), 1e-3)
for step in range(10**6):
    x = torch.randn(256, 128)
    y = (x[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and step % 50 == 0:
        print('step', step, 'loss', loss.item(), flush=True)
