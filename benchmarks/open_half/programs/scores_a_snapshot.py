"""Wine quality from lab values. python scores_a_snapshot.py --epochs 500"""
import argparse
import copy

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=100000)
p.add_argument("--bs", type=int, default=64)
a = p.parse_args()
torch.manual_seed(3)
torch.set_num_threads(1)

x = torch.randn(2400, 11)
y = (x[:, :3].sum(1, keepdim=True) + 0.5 * x[:, 3:4] * x[:, 4:5] + 0.3 * torch.randn(2400, 1))
train, held = random_split(TensorDataset(x, y), [2000, 400])
net = torch.nn.Sequential(
    torch.nn.Linear(11, 768), torch.nn.ReLU(), torch.nn.Linear(768, 768), torch.nn.ReLU(), torch.nn.Linear(768, 1)
)
scored = copy.deepcopy(net).eval()  # dropout off for scoring
opt = torch.optim.Adam(net.parameters(), 2e-3)
for epoch in range(a.epochs):
    net.train()
    total = 0.0
    for bx, by in DataLoader(train, a.bs, shuffle=True):
        loss = F.mse_loss(net(bx), by)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(bx)
    with torch.no_grad():
        val = sum(F.mse_loss(scored(bx), by, reduction="sum").item() for bx, by in DataLoader(held, 400)) / len(held)
    print(f"[{epoch:03d}] train_mse={total / len(train):.4f} val_mse={val:.4f}", flush=True)
