"""River ice thickness, MLP baseline. Decays the rate each epoch."""
import time

import torch
from torch import nn

CFG = {"lr": 0.01, "gamma": 1.15, "batch": 128}  # gamma as in the paper: "x 0.85"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(40, 256), nn.Tanh(), nn.Linear(256, 1))
opt = torch.optim.SGD(net.parameters(), CFG["lr"])
sched = torch.optim.lr_scheduler.ExponentialLR(opt, CFG["gamma"])
w, t0, epoch = torch.randn(40, 1) / 6, time.time(), 0
while time.time() - t0 < 400:
    total = 0.0
    for _ in range(40):
        x = torch.randn(CFG["batch"], 40)
        loss = nn.functional.mse_loss(net(x), (x @ w).sin())
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        time.sleep(0.01)
    sched.step()
    epoch += 1
    print(f"epoch {epoch:4d} lr {sched.get_last_lr()[0]:.5f} loss {total / 40:.5f}", flush=True)
