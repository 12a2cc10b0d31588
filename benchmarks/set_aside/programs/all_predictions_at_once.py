import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    """Infrared spectra of mixtures; the share of each of 5 substances is wanted."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(9)
        self.pure = torch.randn(5, 600, generator=g).cumsum(1) / 10
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        share = torch.rand(5, generator=g)
        share = share / share.sum()
        return share @ self.pure + 0.05 * torch.randn(600, generator=g), share


def evaluate(net, loader):
    """R2 needs all of it, so collect first."""
    outputs, targets = [], []
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            outputs.append(net(x))
            targets.append(y)
    out, y = torch.cat(outputs), torch.cat(targets)
    net.train()
    return 1 - ((out - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--bs", type=int, default=64)
    args = ap.parse_args()
    train = DataLoader(Spectra(12800, 0), args.bs, shuffle=True, num_workers=args.workers)
    val = DataLoader(Spectra(4000, 10**6), 8, num_workers=args.workers)
    net = nn.Sequential(
        nn.Unflatten(1, (1, 600)), nn.Conv1d(1, 32, 15, 2, 7), nn.ReLU(), nn.Conv1d(32, 64, 15, 2, 7), nn.ReLU(),
        nn.Conv1d(64, 64, 15, 2, 7), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 75, 64), nn.ReLU(), nn.Linear(64, 5), nn.Softmax(1),
    )
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for epoch in range(1, 1000):
        for i, (x, y) in enumerate(train):
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 25 == 0:
                print(f"Epoch {epoch}: {i}/{len(train)} mse {loss.item():.5f}", flush=True)
        print(f"Epoch {epoch}: R2 {evaluate(net, val).item():.4f}", flush=True)
