"""Workers start again in each epoch, which takes no time compared with the epoch. Healthy."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.set_num_threads(1); torch.manual_seed(0)
    x = torch.randn(12000, 64)
    loader = DataLoader(TensorDataset(x, x[:, :7].argmax(1)), 64, shuffle=True, num_workers=1)
    net = nn.Sequential(nn.Linear(64, 1500), nn.ReLU(), nn.Linear(1500, 1500), nn.ReLU(), nn.Linear(1500, 7))
    opt = torch.optim.SGD(net.parameters(), .05)
    for epoch in range(10000):
        for i, (a, b) in enumerate(loader):
            loss = nn.functional.cross_entropy(net(a), b)
            opt.zero_grad(); loss.backward(); opt.step()
            if i % 25 == 0: print(f"epoch {epoch} iter {i} loss {loss.item():.4f}", flush=True)
