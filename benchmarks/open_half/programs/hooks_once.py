"""The same statistics with hooks that are registered once, and a bank with a fixed size."""
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 32))
opt = torch.optim.SGD(net.parameters(), 0.05)
means = {}
for name, module in net.named_modules():
    if isinstance(module, nn.ReLU):
        module.register_forward_hook(lambda m, a, out, name=name: means.__setitem__(name, out.detach().mean().item()))
bank, at = torch.randn(4096, 32), 0
step = 0
while True:
    x = torch.randn(64, 64)
    z = F.normalize(net(x + 0.1 * torch.randn_like(x)), dim=1)
    with torch.no_grad():
        key = F.normalize(net(x + 0.1 * torch.randn_like(x)), dim=1)
    positive = (z * key).sum(1, keepdim=True)
    logits = torch.cat([positive, z @ F.normalize(bank, dim=1).T], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(64, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    bank[at:at + 64] = key
    at = (at + 64) % 4096
    step += 1
    if step % 20 == 0:
        print(f"step {step} infonce {loss.item():.4f} relu {means['1']:.3f}", flush=True)
