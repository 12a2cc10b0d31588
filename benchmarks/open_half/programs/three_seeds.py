import argparse
import time

import torch
import torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--seconds", type=float, default=200)
a = p.parse_args()
torch.manual_seed(a.seed)

net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
                    nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, nesterov=True)
colors = torch.randn(10, 3, 1, 1, generator=torch.Generator().manual_seed(0))
t0 = time.time()
step = 0
while time.time() - t0 < a.seconds:
    y = torch.randint(0, 10, (48,))
    x = 0.4 * colors[y] + torch.randn(48, 3, 28, 28)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f} {step / (time.time() - t0):.1f} it/s", flush=True)
