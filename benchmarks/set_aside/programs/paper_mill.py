"""Forecast the web tension of a paper machine; resumes from last.pt and stops before the slot's time is over."""
import argparse
import os
import time

BEGAN = time.time()

import torch
from torch import nn


def signal(n):
    g = torch.Generator().manual_seed(8)
    t = torch.arange(n, dtype=torch.float32)
    x = torch.sin(t / 9) + 0.6 * torch.sin(t / 23 + torch.sin(t / 310)) + 0.3 * torch.sign(torch.sin(t / 57))
    return x + 0.15 * torch.randn(n, generator=g)


class Forecaster(nn.Module):
    def __init__(self, hidden=128, horizon=12):
        super().__init__()
        self.gru = nn.GRU(1, hidden, 2, batch_first=True)
        self.out = nn.Linear(hidden, horizon)

    def forward(self, x):
        return self.out(self.gru(x)[0][:, -1])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", required=True)
    ap.add_argument("--limit", type=float, default=50)
    a = ap.parse_args()
    last = os.path.join(a.work, "last.pt")
    torch.manual_seed(0)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=5e-4)
    step = 0
    if os.path.exists(last):
        state = torch.load(last)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        step = state["step"]
        torch.set_rng_state(state["rng"])
        print(f"resumed at step {step}", flush=True)
    else:
        print("no checkpoint, starting at 0", flush=True)
    x = signal(100_000)
    while time.time() - BEGAN < a.limit:
        i = torch.randint(len(x) - 76, (64,))
        win = torch.stack([x[j:j + 76] for j in i])
        loss = nn.functional.mse_loss(model(win[:, :64, None]), win[:, 64:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} mse {loss.item():.4f}", flush=True)
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step, "rng": torch.get_rng_state()}, last + ".tmp")
    os.replace(last + ".tmp", last)
    print(f"time is over, saved at step {step}", flush=True)


if __name__ == "__main__":
    main()
