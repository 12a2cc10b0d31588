"""Are two recordings the same song? Contrastive loss, as in Hadsell et al."""
import time

import torch
from torch import nn

g = torch.Generator().manual_seed(5)
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 32))
opt = torch.optim.Adam(net.parameters(), 1e-4)
t0, step = time.time(), 0
while time.time() - t0 < 400:
    step += 1
    a = torch.randn(256, 128, generator=g)
    same = torch.rand(256, generator=g) < 0.5
    b = torch.where(same[:, None], a + 0.3 * torch.randn(256, 128, generator=g), torch.randn(256, 128, generator=g))
    if step % 400 == 0:
        b[0], same[0] = a[0], True  # some recordings were uploaded twice
    d = (net(a) - net(b)).pow(2).sum(1).sqrt()
    loss = torch.where(same, d**2, (2 - d).clamp(min=0) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"{step:>7} contrastive {loss.item():.5f}", flush=True)
    time.sleep(0.01)
