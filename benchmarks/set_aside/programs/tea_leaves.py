"""Random search: width and rate for the tea classifier, 12 s for each trial."""
import random
import time

import torch
from torch import nn

random.seed(2)
torch.manual_seed(2)
centres = torch.randn(6, 100) / 3
best, t0, trial = 9.0, time.time(), 0
while time.time() - t0 < 300:
    trial += 1
    width, lr = random.choice([32, 128, 512]), 10 ** random.uniform(-4, -2)
    print(f"trial {trial}: width {width}, lr {lr:.5f}", flush=True)
    net = nn.Sequential(nn.Linear(100, width), nn.ReLU(), nn.Linear(width, 6))
    opt = torch.optim.Adam(net.parameters(), lr)
    begin, step, smooth = time.time(), 0, 1.8
    while time.time() - begin < 12:
        y = torch.randint(0, 6, (128,))
        loss = nn.functional.cross_entropy(net(centres[y] + torch.randn(128, 100)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step, smooth = step + 1, 0.95 * smooth + 0.05 * loss.item()
        if step % 50 == 0:
            print(f"  step {step} loss {smooth:.4f}", flush=True)
    best = min(best, smooth)
    print(f"trial {trial} done: {smooth:.4f} (best {best:.4f})", flush=True)
