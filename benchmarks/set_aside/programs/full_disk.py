"""Speech enhancement mask, saves every 150 steps.  --out: where checkpoints go (default: a directory of its own)"""
import argparse
import os
import pathlib
import tempfile

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=pathlib.Path)
parser.add_argument("--quota-of", type=pathlib.Path, default=pathlib.Path("/dev/full"), help="the project volume, which is at 100 %%")
parser.add_argument("--save-every", type=int, default=150)
args = parser.parse_args()
out = args.out or pathlib.Path(tempfile.mkdtemp())
# the last checkpoint is a link to the project volume, from where others pick it up
(out / "latest.ckpt").unlink(missing_ok=True)
(out / "latest.ckpt").symlink_to(args.quota_of)

torch.manual_seed(2)
net = nn.GRU(129, 160, batch_first=True)
mask = nn.Sequential(nn.Linear(160, 129), nn.Sigmoid())
opt = torch.optim.Adam([*net.parameters(), *mask.parameters()], 1e-3)
try:
    for step in range(1, 10**6):
        clean = torch.rand(8, 60, 129) * (torch.rand(8, 1, 129) < 0.2)
        noisy = clean + 0.3 * torch.rand(8, 60, 129)
        loss = nn.functional.mse_loss(mask(net(noisy)[0]) * noisy, clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        if step % args.save_every == 0:
            print(f"saving {out / 'latest.ckpt'}", flush=True)
            with open(out / "latest.ckpt", "wb") as f:
                torch.save({"net": net.state_dict(), "mask": mask.state_dict(), "opt": opt.state_dict(), "step": step}, f)
finally:
    (out / "latest.ckpt").unlink(missing_ok=True)
    if args.out is None:
        os.rmdir(out)
