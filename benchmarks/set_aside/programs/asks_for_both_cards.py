#!/usr/bin/env python
"""Autoencoder for ECG windows.

    python asks_for_both_cards.py --gpu_ids 0,1 --batchSize 64
"""
import argparse
import os

parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--gpu_ids", type=str, default="0", help="gpu ids: e.g. 0  0,1,2, use -1 for CPU")
parser.add_argument("--batchSize", type=int, default=64)
parser.add_argument("--nz", type=int, default=48, help="size of the code")
parser.add_argument("--niter", type=int, default=1000000)
parser.add_argument("--print_freq", type=int, default=10)
opt = parser.parse_args()
os.environ["CUDA_VISIBLE_DEVICES"] = opt.gpu_ids

import torch  # noqa: E402
from torch import nn  # noqa: E402

print("------------ Options -------------")
for k, v in sorted(vars(opt).items()):
    print(f"{k}: {v}")
print("-------------- End ----------------")


def ecg(n, generator):
    t = torch.linspace(0, 2, 512)
    rate = 1 + torch.rand(n, 1, generator=generator)
    phase = (t * rate + torch.rand(n, 1, generator=generator)) % 1
    beat = torch.exp(-((phase - 0.4) / 0.02) ** 2) - 0.2 * torch.exp(-((phase - 0.45) / 0.03) ** 2) + 0.25 * torch.exp(-((phase - 0.7) / 0.06) ** 2)
    return (beat + 0.02 * torch.randn(n, 512, generator=generator)).unsqueeze(1)


device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
g = torch.Generator().manual_seed(1)
net = nn.Sequential(
    nn.Conv1d(1, 32, 9, 2, 4), nn.ELU(), nn.Conv1d(32, 64, 9, 2, 4), nn.ELU(), nn.Conv1d(64, 64, 9, 2, 4), nn.ELU(),
    nn.Flatten(), nn.Linear(64 * 64, opt.nz), nn.Linear(opt.nz, 64 * 64), nn.Unflatten(1, (64, 64)),
    nn.ConvTranspose1d(64, 64, 8, 2, 3), nn.ELU(), nn.ConvTranspose1d(64, 32, 8, 2, 3), nn.ELU(), nn.ConvTranspose1d(32, 1, 8, 2, 3),
).to(device)
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
for i in range(opt.niter):
    x = ecg(opt.batchSize, g).to(device)
    loss = nn.functional.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % opt.print_freq == 0:
        print(f"(iter: {i}) Loss_AE: {loss.item():.5f}", flush=True)
