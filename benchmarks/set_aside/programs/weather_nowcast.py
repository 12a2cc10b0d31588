"""Precipitation nowcasting, data parallel. Keeps compressed snapshots so that the run fits into the scratch quota."""
import argparse
import gzip
import os
import shutil
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=6000)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--snapshot-freq", type=int, default=30)
    p.add_argument("--print-freq", type=int, default=5)
    p.add_argument("--width", type=int, default=24)
    p.add_argument("--outdir", default=None)
    return p.parse_args()


class Nowcaster(nn.Module):
    """encoder - dense bottleneck - decoder; 4 radar frames in, 1 frame out (48 x 48)"""

    def __init__(self, w):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(4, w, 3, 2, 1), nn.GELU(), nn.Conv2d(w, 2 * w, 3, 2, 1), nn.GELU())
        self.mix = nn.Sequential(nn.Flatten(), nn.Linear(2 * w * 144, 288), nn.GELU(), nn.Linear(288, 2 * w * 144), nn.GELU())
        self.dec = nn.Sequential(nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(w, 1, 4, 2, 1))
        self.w = w

    def forward(self, x):
        h = self.enc(x)
        h = h + self.mix(h).view_as(h)
        return self.dec(h)


def radar_batch(n, gen):
    ax = torch.arange(48.0)
    pos = torch.rand(n, 3, 2, generator=gen) * 48
    vel = torch.randn(n, 3, 2, generator=gen) * 2
    size = 3 + 4 * torch.rand(n, 3, 1, 1, generator=gen)
    frames = []
    for t in range(5):
        c = pos + t * vel
        d = (ax[None, None, :, None] - c[:, :, 0, None, None]) ** 2 + (ax[None, None, None, :] - c[:, :, 1, None, None]) ** 2
        frames.append(torch.exp(-d / (2 * size ** 2)).sum(1))
    f = torch.stack(frames, 1)
    return f[:, :4], f[:, 4:]


def save_snapshot(path, model, ema, optimizer, it):
    tmp = path + ".part"
    with gzip.open(tmp, "wb") as f:
        torch.save({"model": model.state_dict(), "ema": ema, "optimizer": optimizer.state_dict(), "iter": it}, f)
    os.replace(tmp, path)


def main():
    args = parse()
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    outdir = args.outdir or tempfile.mkdtemp(prefix="nowcast_")
    gen = torch.Generator().manual_seed(31 + rank)
    torch.manual_seed(0)
    net = Nowcaster(args.width).to(device)
    ddp = DDP(net)
    opt = torch.optim.Adam(ddp.parameters(), lr=3e-4)
    ema = {k: v.clone() for k, v in net.state_dict().items()}
    if rank == 0:
        print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f}M params, snapshots in {outdir}", flush=True)
    t0 = time.time()
    for it in range(1, args.iters + 1):
        x, y = radar_batch(args.batch, gen)
        loss = nn.functional.mse_loss(ddp(x.to(device)), y.to(device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for k, v in net.state_dict().items():
                ema[k].lerp_(v, 0.01)
        if rank == 0 and it % args.print_freq == 0:
            print(f"iter {it:5d}  mse {loss.item():.5f}  elapsed {time.time() - t0:.0f}s", flush=True)
        if it % args.snapshot_freq == 0:
            if rank == 0:
                save_snapshot(os.path.join(outdir, "snapshot.pt.gz"), net, ema, opt, it)
            dist.barrier()
    dist.destroy_process_group()
    shutil.rmtree(outdir, ignore_errors=True)


if __name__ == "__main__":
    main()
