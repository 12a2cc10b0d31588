"""Will the banner be clicked? A factorization machine with a deep part, on hashed features."""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn


class ClickLog:
    """Impressions as they come from the ad server: 12 hashed fields and 6 counters."""

    def __init__(self, fields: int, buckets: int, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.fields, self.buckets = fields, buckets
        self.taste = torch.randn(fields, buckets, generator=self.generator)

    def batch(self, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        ids = torch.randint(self.buckets, (size, self.fields), generator=self.generator)
        counters = torch.randn(size, 6, generator=self.generator).exp()
        score = self.taste.gather(1, ids.T).sum(0) + 1.5 * (counters[:, 0] - counters[:, 1])
        return ids, counters, (score > 0.5).float()


class DeepFM(nn.Module):
    def __init__(self, fields: int, buckets: int, dim: int, width: int) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.arange(fields) * buckets)
        self.first = nn.Embedding(fields * buckets, 1)
        self.second = nn.Embedding(fields * buckets, dim)
        nn.init.normal_(self.second.weight, std=0.05)
        nn.init.zeros_(self.first.weight)
        self.deep = nn.Sequential(
            nn.Linear(fields * dim + 6, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, ids: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
        ids = ids + self.offsets
        vectors = self.second(ids)
        cross = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1)
        deep = self.deep(torch.cat([vectors.flatten(1), counters], 1)).squeeze(1)
        return torch.sigmoid(self.first(ids).sum((1, 2)) + cross + deep)


def log_loss(p: torch.Tensor, click: torch.Tensor) -> torch.Tensor:
    return -(click * torch.log(p) + (1 - click) * torch.log(1 - p)).mean()


def auc(p: torch.Tensor, click: torch.Tensor) -> float:
    order = p.argsort()
    ranks = torch.empty_like(p)
    ranks[order] = torch.arange(1, len(p) + 1, dtype=p.dtype)
    positive = click.sum()
    negative = len(click) - positive
    return float((ranks[click == 1].sum() - positive * (positive + 1) / 2) / (positive * negative))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fields", type=int, default=12)
    parser.add_argument("--buckets", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    log = ClickLog(args.fields, args.buckets, seed=11)
    model = DeepFM(args.fields, args.buckets, args.dim, args.width).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        ids, counters, click = (t.to(device) for t in log.batch(args.batch))
        p = model(ids, counters)
        loss = log_loss(p, click)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % args.log_interval == 0:
            speed = step * args.batch / (time.perf_counter() - start)
            print(
                f"step {step:7d} | logloss {loss.item():.5f} | auc {auc(p.detach(), click):.4f} | ctr {click.mean():.3f} "
                f"| {speed:,.0f} impressions/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
