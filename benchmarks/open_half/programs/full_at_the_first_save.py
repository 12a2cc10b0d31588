import sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(4096, 48); Y = X[:, :3].prod(1, keepdim=True)
net = torch.nn.Sequential(torch.nn.Linear(48, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
opt = torch.optim.Adam(net.parameters())
target = sys.argv[1] if len(sys.argv) > 1 else "/dev/full"   # a full disk
began = time.time()
epoch = 0
while True:
    for x, y in DataLoader(TensorDataset(X, Y), 128, shuffle=True):
        loss = torch.nn.functional.mse_loss(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
    epoch += 1
    print(f"Epoch {epoch}: loss = {loss.item():.4f}", flush=True)
    if time.time() - began > 20:
        torch.save({"epoch": epoch, "net": net.state_dict(), "opt": opt.state_dict()}, target)
        began = time.time()
