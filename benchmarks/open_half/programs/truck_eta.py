#!/usr/bin/env python3
"""Arrival times of trucks from tabular features."""
import argparse
import json
import os
import tempfile
import time

import torch
import torch.nn as nn


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=120_000)
    ap.add_argument("--bs", type=int, default=256)
    ap.add_argument("--width", type=int, default=192)
    ap.add_argument("--depth", type=int, default=6)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--epochs", type=int, default=50)
    ap.add_argument("--print-freq", type=int, default=50)
    return ap.parse_args()


class RunLogger:
    """Metrics for the internal dashboard, which reads one JSON document per run."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "metrics.json")
        self.steps = []

    def log(self, **values):
        self.steps.append(values)
        with open(self.path + ".part", "w") as f:
            json.dump({"run": "truck-eta", "steps": self.steps}, f, indent=2)
        os.replace(self.path + ".part", self.path)


class ResMLP(nn.Module):
    def __init__(self, d_in, width, depth):
        super().__init__()
        self.inp = nn.Linear(d_in, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = x + b(x)
        return self.out(x).squeeze(-1)


def main():
    args = get_args()
    torch.manual_seed(0)
    x = torch.randn(args.rows, 24)
    y = x[:, 0] * x[:, 1] + torch.sin(2 * x[:, 2]) + 0.5 * x[:, 3:8].sum(1) + 0.1 * torch.randn(args.rows)
    model = ResMLP(24, args.width, args.depth)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    with tempfile.TemporaryDirectory(prefix="eta-") as folder:
        logger = RunLogger(folder)
        step, since = 0, time.time()
        for epoch in range(args.epochs):
            order = torch.randperm(args.rows)
            for k in range(0, args.rows - args.bs + 1, args.bs):
                idx = order[k : k + args.bs]
                loss = nn.functional.huber_loss(model(x[idx]), y[idx])
                opt.zero_grad(set_to_none=True)
                loss.backward()
                norms = {n: round(p.grad.norm().item(), 6) for n, p in model.named_parameters()}
                opt.step()
                logger.log(step=step, epoch=epoch, loss=loss.item(), grad_norm=norms)
                if step % args.print_freq == 0:
                    print(f"step {step:6d} epoch {epoch} loss {loss.item():.4f}", flush=True)
                step += 1
        print(f"done in {time.time() - since:.0f} s")


if __name__ == "__main__":
    main()
