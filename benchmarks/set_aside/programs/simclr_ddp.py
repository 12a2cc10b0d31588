"""SimCLR with gathered negatives.  torchrun --standalone --nproc-per-node=2 simclr_ddp.py"""
import argparse
import math
import os
import time
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as distF
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class TwoViews(Dataset):
    def __init__(self, n=4000, s=24):
        g = torch.Generator().manual_seed(0)
        self.y = torch.randint(0, 10, (n,), generator=g)
        proto = F.interpolate(torch.randn(10, 3, 6, 6, generator=g), size=s + 8, mode="bilinear")
        inst = F.interpolate(torch.randn(n, 3, 8, 8, generator=g), size=s + 8, mode="bilinear")
        self.x = proto[self.y] + 0.7 * inst
        self.s = s

    def __len__(self):
        return len(self.x)

    def view(self, x):
        i, j = torch.randint(0, 9, (2,)).tolist()
        x = x[:, i:i + self.s, j:j + self.s]
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        x = x * (0.6 + 0.8 * torch.rand(3, 1, 1))
        return x + 0.25 * torch.randn_like(x)

    def __getitem__(self, k):
        return self.view(self.x[k]), self.view(self.x[k]), self.y[k]


def encoder(w=32):
    def c(i, o, s):
        return [nn.Conv2d(i, o, 3, s, 1, bias=False), nn.GroupNorm(8, o), nn.ReLU(inplace=True)]
    return nn.Sequential(*c(3, w, 1), *c(w, 2 * w, 2), *c(2 * w, 2 * w, 1), *c(2 * w, 4 * w, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class SimCLR(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.enc = encoder(w)
        self.proj = nn.Sequential(nn.Linear(4 * w, 4 * w), nn.ReLU(), nn.Linear(4 * w, 64))

    def forward(self, x):
        h = self.enc(x)
        return h, F.normalize(self.proj(h), dim=-1)


def nt_xent(z1, z2, rank, temp=0.2):
    a1 = torch.cat(distF.all_gather(z1))
    a2 = torch.cat(distF.all_gather(z2))
    b = len(z1)
    tgt = torch.arange(b, device=z1.device) + rank * b
    l12, l21 = z1 @ a2.T / temp, z2 @ a1.T / temp
    l11, l22 = z1 @ a1.T / temp, z2 @ a2.T / temp
    m = F.one_hot(tgt, len(a1)).bool()
    l11, l22 = l11.masked_fill(m, -1e9), l22.masked_fill(m, -1e9)
    return 0.5 * (F.cross_entropy(torch.cat([l12, l11], 1), tgt) + F.cross_entropy(torch.cat([l21, l22], 1), tgt))


@torch.no_grad()
def knn(model, ds, device, n=600):
    model.eval()
    x, y = ds.x[:n, :, 4:28, 4:28].to(device), ds.y[:n].to(device)
    h = F.normalize(model.enc(x), dim=-1)
    s = h @ h.T
    s.fill_diagonal_(-1)
    model.train()
    return (y[s.topk(9).indices].mode(1).values == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--warmup", type=int, default=120)
    args = ap.parse_args()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    torch.manual_seed(rank)
    ds = TwoViews()
    sampler = DistributedSampler(ds)
    dl = DataLoader(ds, args.batch_size, sampler=sampler, drop_last=True)
    model = DDP(SimCLR().to(device), device_ids=[local] if cuda else None)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    total = args.epochs * len(dl)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: (s + 1) / args.warmup * 0.999 if s < args.warmup else 0.5 * (1 + math.cos(math.pi * s / total)))
    if rank == 0:
        print(f"SimCLR world={world} batch={world * args.batch_size}, log(2N-1)={math.log(2 * world * args.batch_size - 1):.3f}", flush=True)
    step, t0 = 0, time.time()
    for ep in range(args.epochs):
        sampler.set_epoch(ep)
        for v1, v2, _ in dl:
            _, z = model(torch.cat([v1, v2]).to(device))
            z1, z2 = z.chunk(2)
            loss = nt_xent(z1, z2, rank)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if rank == 0 and step % 5 == 0:
                print(f"ep {ep} step {step} nt-xent {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e} {step / (time.time() - t0):.2f} it/s", flush=True)
        if rank == 0 and ep % 3 == 2:
            print(f"ep {ep} knn acc {knn(model.module, ds, device):.3f}", flush=True)
        if ep % 3 == 2:
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
