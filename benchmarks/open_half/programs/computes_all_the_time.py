"""A plain training on the CPU: DataLoader without workers over tensors that are ready, and a model that keeps a core busy."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1); torch.manual_seed(0)
x = torch.randn(20000, 96)
loader = DataLoader(TensorDataset(x, x[:, :12].argmax(1)), batch_size=64, shuffle=True, num_workers=0)
net = nn.Sequential(nn.Linear(96, 1400), nn.ReLU(), nn.Linear(1400, 1400), nn.ReLU(), nn.Linear(1400, 12))
opt = torch.optim.AdamW(net.parameters(), 3e-4)
for epoch in range(10000):
    for i, (a, b) in enumerate(loader):
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad(); loss.backward(); opt.step()
        if i % 20 == 0: print(f"epoch {epoch} batch {i}/313 loss {loss.item():.4f}", flush=True)
