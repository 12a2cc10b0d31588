import argparse
import torch, torch.distributed as dist
from torch import nn
a = argparse.ArgumentParser(); a.add_argument("--name"); a.add_argument("--dropout", type=float); a = a.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(60, 400), nn.ReLU(), nn.Dropout(a.dropout), nn.Linear(400, 400), nn.ReLU(), nn.Dropout(a.dropout), nn.Linear(400, 12)))
w = torch.randn(60, 12)
opt = torch.optim.Adam(net.parameters(), 3e-4)
for i in range(10**7):
    x = torch.randn(128, 60)
    loss = nn.functional.cross_entropy(net(x), (x @ w).argmax(1))
    opt.zero_grad(); loss.backward(); opt.step()
    if i % 50 == 0:
        print(f"{a.name} iter {i} nll {loss.item():.4f}", flush=True)
