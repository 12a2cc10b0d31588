"""Denoises stellar spectra. Watches the ranks of the representation, because of the collapse in March."""
import time

import torch
from torch import nn

WATCH_EVERY = 60
torch.manual_seed(1)
enc = nn.Sequential(nn.Linear(200, 300), nn.GELU(), nn.Linear(300, 200))
opt = torch.optim.AdamW(enc.parameters(), lr=1e-3)
lines = torch.randn(12, 200)
probe = torch.randn(2200, 12) @ lines


def effective_rank():
    """Of the kernel of all probes (double precision, to be sure)."""
    with torch.no_grad():
        z = enc(probe).double()
        kernel = torch.exp(-torch.cdist(z, z) ** 2 / 200)
        s = torch.linalg.svdvals(kernel)
        p = s / s.sum()
        return torch.exp(-(p * (p + 1e-12).log()).sum()).item()


start, step = time.time(), 0
while time.time() - start < 400:
    clean = torch.randn(256, 12) @ lines
    loss = nn.functional.mse_loss(enc(clean + torch.randn_like(clean)), clean)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    step += 1
    if step % 10 == 0:
        print(f"step={step} mse={loss.item():.4f}", flush=True)
    if step % WATCH_EVERY == 0:
        print(f"step={step} effective rank {effective_rank():.1f}", flush=True)
