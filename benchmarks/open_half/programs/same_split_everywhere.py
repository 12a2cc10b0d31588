# DDP, but every rank shuffles the same way; each prints what it sees
import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [rank{dist.get_rank()}] %(message)s")
torch.manual_seed(0)
x = torch.randn(4096, 32)
loader = DataLoader(TensorDataset(x, x.sin().sum(1, keepdim=True)), 64, shuffle=True)
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 1)))
opt = torch.optim.Adam(net.parameters(), 1e-3)
step = 0
for epoch in range(10**5):
    for inputs, targets in loader:
        loss = (net(inputs) - targets).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 10 == 0:
            logging.info("epoch %d step %d loss %.5f", epoch, step, loss.item())
