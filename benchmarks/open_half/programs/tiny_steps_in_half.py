"""Denoiser in pure bf16 to fit next to the simulator. lr from the paper (they trained in fp32)."""
import os

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
lr = float(os.environ.get("LR", "2e-5"))
net = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.GELU(), torch.nn.Linear(128, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
).bfloat16()
opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
basis = torch.randn(8, 64)
for it in range(10**7):
    clean = torch.randn(32, 8) @ basis
    noisy = (clean + 0.5 * torch.randn_like(clean)).bfloat16()
    loss = (net(noisy).float() - clean).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 20 == 0:
        print(f"it {it:6d}  loss {loss.item():.4f}  lr {lr:g}", flush=True)
