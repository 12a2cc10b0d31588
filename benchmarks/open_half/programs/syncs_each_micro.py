import os
import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Cfg: micro = 4; accum = 16; d = 700; lr = 1e-3

dist.init_process_group("gloo")
r = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(32, Cfg.d), nn.ReLU(), nn.Linear(Cfg.d, Cfg.d), nn.ReLU(), nn.Linear(Cfg.d, 1)))
opt = torch.optim.Adam(model.parameters(), Cfg.lr)
torch.manual_seed(r)
step = 0
while True:
    for micro in range(Cfg.accum):
        x = torch.randn(Cfg.micro, 32)
        loss = nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True)) / Cfg.accum
        loss.backward()
    opt.step(); opt.zero_grad()
    step += 1
    if r == 0 and step % 5 == 0:
        print({"step": step, "loss": round(loss.item() * Cfg.accum, 4)}, flush=True)
