"""Forecasting with soft-DTW: the loss is a recursion in plain torch, and takes longer than the network. As it should."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


def soft_dtw(x, y, gamma=0.1):
    d = (x.unsqueeze(2) - y.unsqueeze(1)).pow(2)
    n = d.shape[1]
    big = torch.full((len(x),), 1e4)
    r = [[big] * (n + 1) for _ in range(n + 1)]
    r[0][0] = torch.zeros(len(x))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            three = torch.stack([r[i - 1][j], r[i][j - 1], r[i - 1][j - 1]])
            r[i][j] = d[:, i - 1, j - 1] - gamma * torch.logsumexp(-three / gamma, 0)
    return r[n][n].mean()


net = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 16))
opt = torch.optim.Adam(net.parameters(), 2e-3)
step = 0
while True:
    t = torch.rand(32, 1) * 6 + torch.arange(40) / 6
    series = torch.sin(t)
    out = net(series[:, :24])
    loss = soft_dtw(out, series[:, 24:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 10 == 0:
        print(f"step {step} soft-dtw {loss.item():.4f}", flush=True)
