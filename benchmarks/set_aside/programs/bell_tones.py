"""Pitch of church bells: five partials from a spectrum."""
import argparse
import os
import time

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR


class Trainer:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.ckpt")
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(500, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 5))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.scheduler = CosineAnnealingLR(self.optimizer, 2000)
        self.step = 0

    def save(self):
        torch.save({"step": self.step, "model": self.model.state_dict(), "optim": self.optimizer.state_dict(), "sched": self.scheduler.state_dict()}, self.path)

    def resume(self):
        if not os.path.exists(self.path):
            return
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.step = state["step"]
        print(f"resumed at step {self.step}")

    def batch(self, n=64):
        partials = torch.tensor([0.5, 1.0, 1.2, 1.5, 2.0]) * (0.7 + torch.rand(n, 1)) * (1 + 0.02 * torch.randn(n, 5))
        f = torch.linspace(0, 4, 500)
        x = torch.exp(-(((f - partials[..., None]) / 0.02) ** 2)).sum(1)
        return x + 0.1 * torch.randn_like(x), partials

    def fit(self, seconds, slice_):
        self.resume()
        start = time.time()
        while time.time() - start < seconds:
            x, y = self.batch()
            loss = nn.functional.l1_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
            if self.step % 20 == 0:
                print(f"step {self.step} | l1 {loss.item():.4f} | lr {self.scheduler.get_last_lr()[0]:.2e}")
            if self.step % 100 == 0:
                self.save()
            if self.step % slice_ == 0:
                raise SystemExit(75)  # our slice of the card is over; the keeper starts the next one


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--slice", type=int, default=400, help="steps until somebody else may have the card")
    args = parser.parse_args()
    Trainer(args.dir).fit(170, args.slice)
