"""Tomorrow's peak of the power grid: an ensemble, each member with a device and a bootstrap of its own.

python peak_loads.py --members 2
"""

from __future__ import annotations

import argparse
import os
from multiprocessing.queues import Queue

import torch
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def days(n: int, seed: int) -> TensorDataset:
    """Return weather, calendar and the peak, standardized."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 32, generator=g)
    peak = x[:, 0] + 0.6 * x[:, 1] * x[:, 2] + torch.sin(2 * x[:, 3]) + 0.3 * torch.randn(n, generator=g)
    return TensorDataset(x, peak / 1.7)


class Member(nn.Module):
    """Predicts mean and log variance."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(32, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()
        )
        self.head = nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return both, one number for each day."""
        mean, logvar = self.head(self.body(x)).unbind(1)
        return mean, logvar.clamp(-6, 3)


def nll(mean: Tensor, logvar: Tensor, y: Tensor) -> Tensor:
    """Return the Gaussian negative log likelihood."""
    return 0.5 * (logvar + (y - mean) ** 2 / logvar.exp()).mean()


def fit(member: int, args: argparse.Namespace, results: Queue) -> None:
    """Train one member, again and again with another bootstrap."""
    torch.set_num_threads(1)
    cards = torch.cuda.device_count()
    device = torch.device("cuda", member % cards) if cards else torch.device("cpu")
    train, val = days(20000, 0), days(2000, 1)
    for round_ in range(1000):
        torch.manual_seed(1000 * round_ + member)
        drawn = Subset(train, torch.randint(0, len(train), (len(train),)).tolist())
        loader = DataLoader(drawn, args.batch, shuffle=True)
        net = Member(args.hidden).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), args.lr, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(loader))
        for epoch in range(args.epochs):
            for i, (x, y) in enumerate(loader):
                loss = nll(*net(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                if i % 50 == 0:
                    print(f"member {member} round {round_} epoch {epoch} batch {i} nll {loss.item():+.4f}", flush=True)
        with torch.no_grad():
            x, _ = val.tensors
            results.put((member, round_, net(x.to(device))[0].cpu().numpy()))


def main() -> None:
    """Start the members, and average what they predict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    print(f"pid {os.getpid()}: {args.members} members", flush=True)
    context = mp.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=fit, args=(m, args, results), daemon=True) for m in range(args.members)]
    for process in processes:
        process.start()
    _, y = days(2000, 1).tensors
    predictions: list[Tensor] = []
    while any(process.is_alive() for process in processes):
        member, round_, mean = results.get()
        predictions.append(torch.from_numpy(mean))
        error = (torch.stack(predictions).mean(0) - y).abs().mean().item()
        print(f"== member {member} finished round {round_}: mae of {len(predictions)} averaged {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
