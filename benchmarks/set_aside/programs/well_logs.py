"""Lithology from well logs: 1d U-Net over depth windows. Saves every 150 steps; 'train for a slice, then hand over' (exit 75)."""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self, c=48, rocks=6):
        super().__init__()
        self.down = nn.Sequential(nn.Conv1d(5, c, 9, padding=4), nn.ReLU(), nn.Conv1d(c, c, 9, 2, 4), nn.ReLU())
        self.up = nn.Sequential(nn.ConvTranspose1d(c, c, 4, 2, 1), nn.ReLU())
        self.out = nn.Conv1d(c + 5, rocks, 1)

    def forward(self, x):
        return self.out(torch.cat([x, self.up(self.down(x))], 1))


def wells(n):
    rock = torch.randint(0, 6, (n, 16)).repeat_interleave(8, 1)
    means = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    return means[rock].transpose(1, 2) + 0.9 * torch.randn(n, 5, 128), rock


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--resume")
    ap.add_argument("--slice", type=float, default=6, help="seconds until the machine may be taken away")
    ap.add_argument("--steps", type=int, default=20_000)
    args = ap.parse_args()
    model = Net()
    step = 0
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        step = state["step"]
        print(f"resumed at step {step}")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = DistributedDataParallel(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    start = time.time()
    while step < args.steps:
        x, y = wells(32)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        if time.time() - start > args.slice:
            torch.save({"model": model.state_dict(), "step": step}, os.path.join(args.out, "last.pt"))
            print(f"slice over at step {step}, saved")
            sys.exit(75)


if __name__ == "__main__":
    main()
