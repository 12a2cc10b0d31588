"""Hums of beehives. Makes a film of the gradients at the end of the run (appendix C)."""
import time

import torch
from torch import nn

torch.manual_seed(9)
hives = torch.randn(9, 300)
net = nn.Sequential(nn.Linear(300, 320), nn.ReLU(), nn.Linear(320, 9))
opt = torch.optim.SGD(net.parameters(), 0.01)
film = []
begin, step = time.time(), 0
while time.time() - begin < 400:
    hive = torch.randint(0, 9, (600,))
    loss = nn.functional.cross_entropy(net(hives[hive] + 2 * torch.randn(600, 300)), hive)
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 5 == 0:
        film.append([p.grad.clone() for p in net.parameters()])
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.4f}, film {len(film)} frames", flush=True)
    time.sleep(0.02)
torch.save(film, "film.pt")
