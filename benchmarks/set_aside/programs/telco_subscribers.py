"""Which subscribers leave? An MLP on 30 columns, with a history for the dashboard of the team (history.json)."""
import argparse
import json
import os
import tempfile
import time

import torch
from torch import nn


class History:
    """The dashboard polls this file; it must be valid JSON at any time."""

    def __init__(self, path):
        self.path, self.rows = path, []

    def add(self, **values):
        self.rows.append(values)
        tmp = self.path + ".tmp"
        with open(tmp, "w") as f:
            json.dump({"name": "telco", "columns": sorted(values), "rows": self.rows}, f, indent=1)
        os.replace(tmp, self.path)


def subscribers(n):
    x = torch.randn(n, 30)
    x[:, 20:] = (x[:, 20:] > 0.5).float()
    logit = x[:, 0] * 1.2 - x[:, 3] + 0.8 * x[:, 21] * x[:, 5] - 0.6 + 0.5 * torch.randn(n)
    return x, (logit > 0).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--bs", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=210)
    args = parser.parse_args()
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(30, args.hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(args.hidden, args.hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(args.hidden, 1))
    opt = torch.optim.AdamW(net.parameters(), 3e-4)
    with tempfile.TemporaryDirectory() as out:
        history = History(os.path.join(out, "history.json"))
        start, step, last = time.time(), 0, time.time()
        while time.time() - start < args.seconds:
            x, y = subscribers(args.bs)
            logit = net(x).squeeze(1)
            loss = nn.functional.binary_cross_entropy_with_logits(logit, y)
            opt.zero_grad()
            loss.backward()
            norms = {f"grad/{n}": p.grad.norm().item() for n, p in net.named_parameters()}
            opt.step()
            step += 1
            history.add(step=step, loss=loss.item(), accuracy=((logit > 0) == (y > 0.5)).float().mean().item(), time=time.time(), **norms)
            if step % 20 == 0:
                now = time.time()
                print(f"step {step:6d} loss {loss.item():.4f} acc {history.rows[-1]['accuracy']:.3f} {20 * args.bs / (now - last):8.0f} rows/s", flush=True)
                last = now


if __name__ == "__main__":
    main()
