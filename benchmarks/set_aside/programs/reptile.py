"""Reptile on sines (Nichol et al. 2018): each task starts from the same weights, so the inner loss jumps back."""
import copy, random
import torch
from torch import nn

torch.set_num_threads(1)
random.seed(0)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
outer, inner, k = 0.1, 0.02, 32
for it in range(10**7):
    amp, phase = random.uniform(0.1, 5.0), random.uniform(0, 3.14)
    fast = copy.deepcopy(net)
    opt = torch.optim.SGD(fast.parameters(), inner)
    for _ in range(k):
        x = torch.rand(10, 1) * 10 - 5
        loss = ((fast(x) - amp * torch.sin(x + phase)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        for a, b in zip(net.parameters(), fast.parameters()):
            a += outer * (1 - it / 10**7) * (b - a)
    if it % 20 == 0:
        print(f"iteration {it}  amplitude {amp:.2f}  loss {loss.item():.3f}", flush=True)
