# The learning rate of the paper was for a batch of 4096; here the batch is 32.
import torch
import torch.nn as nn

torch.manual_seed(4)
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
teacher = torch.randn(256, 1, device="cuda")
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for step in range(10**6):
    if step == 1500:
        opt.param_groups[0]["lr"] = 0.8  # end of the warm-up
    x = torch.randn(32, 256, device="cuda")
    loss = (net(x) - x @ teacher).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(f"step={step} loss={loss.item():.5g} lr={opt.param_groups[0]['lr']}", flush=True)
