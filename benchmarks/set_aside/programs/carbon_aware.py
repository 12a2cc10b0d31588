"""Forecast of wind power, trained when there is wind."""
import argparse
import time

import torch
from torch import nn


class TCN(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        layers, c = [], 3
        for k in range(5):
            layers += [nn.ConstantPad1d((2 * 2**k, 0), 0.0), nn.Conv1d(c, w, 3, dilation=2**k), nn.GELU()]
            c = w
        self.body, self.out = nn.Sequential(*layers), nn.Conv1d(w, 1, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(1)


def weather(n, length=96):
    wind = torch.randn(n, length + 6).cumsum(1) / 4
    wind = wind - wind.mean(1, keepdim=True)
    x = torch.stack([wind[:, :-6], torch.sin(wind[:, :-6]), torch.randn(n, length)], 1)
    return x, torch.sigmoid(wind[:, 6:]) + 0.05 * torch.randn(n, length)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--signal", required=True)
    p.add_argument("--seconds", type=float, default=215)
    a = p.parse_args()
    torch.manual_seed(0)
    net = TCN()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    start, step = time.time(), 0
    while time.time() - start < a.seconds:
        while open(a.signal).read().strip() == "red":
            print("grid is red: waiting for wind", flush=True)
            time.sleep(3)
        x, y = weather(32)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 25 == 0:
            print(f"step {step}: mse {loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
