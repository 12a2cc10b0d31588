"""micro-batches with loss summed over all pixels, so that lr 1e-3 of the paper is thousands of times too large"""
import torch
from torch import nn
torch.manual_seed(2); torch.set_num_threads(1)
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
criterion = nn.MSELoss(reduction="sum")
step = 0
while True:
    opt.zero_grad()
    for _ in range(4):
        clean = torch.rand(8, 1, 32, 32)
        loss = criterion(net(clean + .1 * torch.randn_like(clean)), clean)
        loss.backward()
    opt.step()
    step += 1
    if step % 10 == 0:
        print(f"step {step}: loss={loss.item():.3f}", flush=True)
