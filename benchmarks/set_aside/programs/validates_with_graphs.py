"""Forecast of river levels with a GRU. Keeps all validation losses to plot them later."""
import argparse
import logging

import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s")
log = logging.getLogger("rivers")


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.GRU(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.head(h).squeeze(-1)


def windows(n, length, g):
    t = torch.arange(length + 1) / 12
    phase = 6.28 * torch.rand(n, 8, 1, generator=g)
    s = torch.sin(t * (0.5 + torch.rand(n, 8, 1, generator=g)) + phase) + 0.1 * torch.randn(n, 8, length + 1, generator=g)
    s = s.transpose(1, 2)
    return s[:, :-1], s[:, 1:, 0]


def main(args):
    g = torch.Generator().manual_seed(0)
    model = Forecaster(args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    vx, vy = windows(128, args.length, g)
    history = {"train": [], "val": []}
    for it in range(1, 200001):
        x, y = windows(args.batch, args.length, g)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["train"].append(loss.item())
        if it % args.eval_every == 0:
            model.eval()
            val = nn.functional.mse_loss(model(vx), vy)
            model.train()
            history["val"].append(val)
            log.info("iter %d train_loss %.4f val_loss %.4f (best %.4f)", it, loss.item(), val, min(history["val"]))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--length", type=int, default=96)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--eval_every", type=int, default=20)
    main(p.parse_args())
