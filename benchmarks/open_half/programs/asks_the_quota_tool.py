#!/usr/bin/env python
"""Rain gauge imputation. Before each epoch: is there still room on the project share?"""
import argparse
import subprocess
import sys

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--tool", default=f"{sys.executable} -c 'import time; time.sleep(4); print(71)'", help="prints percent used")
p.add_argument("--epoch-steps", type=int, default=40)
args = p.parse_args()


def percent_used():
    return int(subprocess.run(args.tool, shell=True, check=True, capture_output=True, text=True).stdout)


class Imputer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True), 2)
        self.inp, self.out = nn.Linear(2, 64), nn.Linear(64, 1)

    def forward(self, x, m):
        return self.out(self.enc(self.inp(torch.stack([x * m, m], -1)))).squeeze(-1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    net = Imputer()
    opt = torch.optim.AdamW(net.parameters(), 5e-4)
    for epoch in range(10**5):
        if percent_used() > 95:
            sys.exit("no room")
        total = 0.0
        for _ in range(args.epoch_steps):
            x = torch.randn(16, 48).cumsum(1) / 7
            m = (torch.rand_like(x) < 0.7).float()
            loss = ((net(x, m) - x) * (1 - m)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch:04d} | loss {total / args.epoch_steps:.4f}", flush=True)


if __name__ == "__main__":
    main()
