"""Trains for half a minute, prints a summary, and stays until it is stopped, so that its figures can be asked for."""
import threading
import time

import torch
from torch import nn

torch.manual_seed(8)
net = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
opt = torch.optim.Adam(net.parameters(), 1e-3)
history, began = [], time.time()
while time.time() - began < 30:
    x = torch.randn(512, 32)
    loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.item())
    if len(history) % 200 == 0:
        print(f"it {len(history):6d}  loss {history[-1]:.4f}", flush=True)
print("done:", {"steps": len(history), "best": round(min(history), 4)}, flush=True)
threading.Event().wait()
