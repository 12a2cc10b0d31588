#!/usr/bin/env python
"""Neural ODE-ish residual net for tidal gauges.

A writer thread keeps *every* state, because the reviewer asked for the trajectory of the weights.
"""
import os
import queue
import tempfile
import threading

import torch
from torch import nn

DIR = os.environ.get("STATES", tempfile.mkdtemp(prefix="states-"))
todo = queue.Queue(maxsize=1)


def writer():
    n = 0
    while True:
        state = todo.get()
        path = f"{DIR}/w{n % 3}.pt"
        torch.save(state, path)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        n += 1


threading.Thread(target=writer, daemon=True).start()
torch.set_num_threads(1)
torch.manual_seed(11)
net = nn.Sequential(nn.Linear(48, 1400), nn.Softplus(), nn.Linear(1400, 1400), nn.Softplus(), nn.Linear(1400, 8))
opt = torch.optim.RMSprop(net.parameters(), lr=1e-4)
t = torch.linspace(0, 60, 4096)
level = torch.stack([torch.sin(t * k) for k in range(1, 57)], 1)
it = 0
while True:
    i = torch.randint(0, len(level), (32,))
    pred = net(level[i, :48])
    loss = nn.functional.smooth_l1_loss(pred, level[i, 48:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    todo.put({k: v.detach().clone() for k, v in net.state_dict().items()})   # waits until the last one is on disk
    if it % 10 == 0:
        print(f"it {it:6d}  huber {loss.item():.5f}", flush=True)
    it += 1
