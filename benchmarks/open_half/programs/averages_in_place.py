# Wine quality, Polyak averaging: the slow copy is scored (healthy: lerp_ writes into it)
import copy

import torch
from torch.nn.functional import mse_loss

torch.manual_seed(4)
torch.set_num_threads(1)
X = torch.randn(2400, 11)
Y = X[:, :3].sum(1, keepdim=True) + 0.3 * torch.randn(2400, 1)
net = torch.nn.Sequential(torch.nn.Linear(11, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
slow = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(10**6):
    perm = torch.randperm(2000)
    for i in range(0, 2000, 50):
        idx = perm[i : i + 50]
        loss = mse_loss(net(X[idx]), Y[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for s, w in zip(slow.parameters(), net.parameters()):
                s.lerp_(w, 0.005)
    with torch.no_grad():
        v = mse_loss(slow(X[2000:]), Y[2000:]).item()
    print(f"epoch {epoch} train_loss {loss.item():.5f} val_loss {v:.5f}", flush=True)
