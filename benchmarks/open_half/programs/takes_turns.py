import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--user", required=True)
parser.add_argument("--lr", type=float, required=True)
o = parser.parse_args()
torch.manual_seed(len(o.user) + ord(o.user[0]))
net = nn.Sequential(nn.Linear(50, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 1))
opt = torch.optim.Adam(net.parameters(), o.lr)
begin, step = time.time(), 0
while time.time() - begin < 230:
    x = torch.randn(128, 50)
    y = x[:, :12].abs().sum(1, keepdim=True) - 0.8 * x[:, 12:16].sum(1, keepdim=True)
    loss = (net(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 60 == 0:
        print(f"<{o.user}> step {step} mse {loss.item():.4f}")
