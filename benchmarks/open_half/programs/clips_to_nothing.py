"""python clips_to_nothing.py   config below, as in our hydra setup"""
from types import SimpleNamespace
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cfg = SimpleNamespace(lr=0.02, batch=128, clip_norm=1e-5, momentum=0.9, epochs=500)
torch.manual_seed(1)
torch.set_num_threads(1)
x = torch.randn(4096, 48)
y = (x[:, :6] * torch.arange(1, 7)).argmax(1)
loader = DataLoader(TensorDataset(x, y), cfg.batch, shuffle=True)
net = nn.Sequential(nn.Linear(48, 1500), nn.ReLU(), nn.Dropout(.1), nn.Linear(1500, 6))
opt = torch.optim.SGD(net.parameters(), cfg.lr, cfg.momentum)
for epoch in range(cfg.epochs):
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), cfg.clip_norm)
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} train_loss {total / len(loader):.4f}", flush=True)
