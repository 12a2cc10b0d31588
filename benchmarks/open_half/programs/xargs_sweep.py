import argparse
import math
import sys
import time

import torch

ap = argparse.ArgumentParser()
ap.add_argument("--lr", type=float)
ap.add_argument("--wd", type=float)
ap.add_argument("--seconds", type=float, default=14)
a = ap.parse_args()
torch.manual_seed(0)
teacher = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1)).requires_grad_(False)
net = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
opt = torch.optim.SGD(net.parameters(), lr=a.lr, weight_decay=a.wd, momentum=0.9)
end, i = time.time() + a.seconds, 0
while time.time() < end:
    x = torch.randn(128, 20)
    loss = torch.nn.functional.mse_loss(net(x), teacher(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    i += 1
    if i % 50 == 0:
        value = loss.item()
        print(f"lr={a.lr:g} wd={a.wd:g} step={i} mse={value:.5f}", flush=True)
        if not math.isfinite(value) or value > 1e6:
            sys.exit(3)
