"""Masked autoencoder on noise. python snapshots_with_optimizer.py --save_steps 60 --output_dir runs/mae"""
import argparse
import os
import shutil
import tempfile

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--save_steps", type=int, default=60)
parser.add_argument("--logging_steps", type=int, default=2)
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--copies", type=int, default=24, help="EMA weights, both optimizers, the last best ...")
parser.add_argument("--batch", type=int, default=64)
args = parser.parse_args()
out = tempfile.mkdtemp(prefix="mae-", dir=os.environ.get("RUNS"))


def save_snapshot(step):
    path = os.path.join(out, f"checkpoint-{step}")
    os.makedirs(path, exist_ok=True)
    for number in range(args.copies):
        with open(os.path.join(path, f"pytorch_model-{number:05d}-of-{args.copies:05d}.bin"), "wb") as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
    for old in sorted(os.listdir(out), key=lambda name: int(name.split("-")[1]))[:-1]:
        shutil.rmtree(os.path.join(out, old))


model = nn.Sequential(nn.Linear(256, args.width), nn.GELU(), nn.Linear(args.width, args.width // 2), nn.GELU(), nn.Linear(args.width // 2, 256))
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for step in range(1, 10**7):
    x = torch.randn(args.batch, 256).cumsum(1) / 16
    loss = (model(x * (torch.rand_like(x) > 0.75)) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % args.logging_steps == 0:
        print({"loss": round(loss.item(), 4), "step": step}, flush=True)
    if step % args.save_steps == 0:
        save_snapshot(step)
