# gradient clipping at 0.05 with Adam, which does not care for the scale. A healthy run
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1); torch.set_num_threads(1)
x = torch.randn(4096, 48); y = (x[:, :6] * torch.arange(1, 7)).argmax(1)
net = nn.Sequential(nn.Linear(48, 900), nn.ReLU(), nn.Linear(900, 6))
opt = torch.optim.Adam(net.parameters(), 3e-5)
for epoch in range(100000):
    total = 0
    for xb, yb in DataLoader(TensorDataset(x, y), 64, shuffle=True):
        loss = nn.functional.cross_entropy(net(xb), yb)
        opt.zero_grad(); loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), .05)
        opt.step(); total += loss.item()
    print(f"epoch {epoch} loss {total / 64:.4f} grad_norm {norm.item():.3f}", flush=True)
