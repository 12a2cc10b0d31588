"""RealNVP: Dichte der Driftvektoren von Quallen (8 Merkmale). Protokoll als CSV auf der Konsole."""

import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
DIM = 8


def drift(n):
    """Stark korrelierte Messwerte nahe einer Fläche: die Dichte ist dort groß, die NLL also negativ."""
    z = torch.randn(n, 3)
    mix = torch.randn(3, DIM, generator=torch.Generator().manual_seed(4))
    x = torch.tanh(z @ mix) + 0.15 * torch.sin(3 * z[:, :1])
    return x + 0.03 * torch.randn(n, DIM)


class Coupling(nn.Module):
    def __init__(self, mask, hidden=96):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(DIM, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2 * DIM))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        s, t = self.net(x * self.mask).chunk(2, 1)
        s = 2.0 * torch.tanh(s / 2.0) * (1 - self.mask)
        t = t * (1 - self.mask)
        return x * torch.exp(s) + t, s.sum(1)


class Flow(nn.Module):
    def __init__(self, depth=10):
        super().__init__()
        masks = [(torch.arange(DIM) // (1 + k // 2 % 2) % 2 == k % 2).float() for k in range(depth)]
        self.layers = nn.ModuleList(Coupling(m) for m in masks)

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        return total - 0.5 * (x**2).sum(1) - 0.5 * DIM * 1.8379


def main():
    loader = DataLoader(TensorDataset(drift(60000)), batch_size=128, shuffle=True)
    test = drift(2000)
    flow = Flow()
    opt = torch.optim.Adam(flow.parameters(), lr=2e-4)
    print("epoch,step,train_nll,test_nll")
    for epoch in range(300):
        for step, (x,) in enumerate(loader):
            loss = -flow.log_prob(x).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            opt.step()
            if step % 25 == 0:
                with torch.no_grad():
                    test_nll = -flow.log_prob(test).mean().item()
                print(f"{epoch},{step},{loss.item():.4f},{test_nll:.4f}")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
