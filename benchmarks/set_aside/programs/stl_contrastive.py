"""SimCLR pretraining with a global batch over all ranks, then a nearest-class probe every few epochs."""
import argparse
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class GatherLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x.contiguous())
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        g = torch.stack(grads)
        dist.all_reduce(g)
        return g[dist.get_rank()]


def pictures(n, classes=16, seed=0):
    g = torch.Generator().manual_seed(21)
    protos = F.interpolate(torch.randn(classes, 3, 5, 5, generator=g), size=40, mode="bicubic")
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    return protos[y] + 0.3 * torch.randn(n, 3, 40, 40, generator=g), y


def augment(x):
    b = len(x)
    dy, dx = torch.randint(0, 9, (2,)).tolist()
    x = x[:, :, dy:dy + 32, dx:dx + 32]
    flip = torch.rand(b, 1, 1, 1, device=x.device) < 0.5
    x = torch.where(flip, x.flip(-1), x)
    x = x * torch.empty(b, 3, 1, 1, device=x.device).uniform_(0.5, 1.5)
    grey = torch.rand(b, 1, 1, 1, device=x.device) < 0.2
    x = torch.where(grey, x.mean(1, keepdim=True).expand_as(x), x)
    return x + 0.3 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, w=24, proj=64):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        self.net = nn.Sequential(block(3, w, 1), block(w, 2 * w, 2), block(2 * w, 2 * w, 1), block(2 * w, 4 * w, 2),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.proj = nn.Sequential(nn.Linear(4 * w, 128), nn.ReLU(), nn.Linear(128, proj))

    def forward(self, x):
        return F.normalize(self.proj(self.net(x)), dim=1)


def nt_xent(z1, z2, tau):
    z = torch.cat([torch.cat(GatherLayer.apply(z1)), torch.cat(GatherLayer.apply(z2))])
    sim = z @ z.t() / tau
    sim.fill_diagonal_(-1e4)
    n = len(z) // 2
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(0, n)]).to(z.device)
    return F.cross_entropy(sim, target)


@torch.no_grad()
def probe(net, x, y, device):
    net.eval()
    h = F.normalize(torch.cat([net.net(b.to(device)) for b in x[:, :, 4:36, 4:36].split(100)]), dim=1).cpu()
    half = len(h) // 2
    protos = torch.stack([h[:half][y[:half] == c].mean(0) for c in range(16)])
    return ((h[half:] @ F.normalize(protos, dim=1).t()).argmax(1) == y[half:]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=80)
    ap.add_argument("--batch", type=int, default=64, help="per rank")
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--warmup-epochs", type=int, default=5)
    ap.add_argument("--tau", type=float, default=0.3)
    a = ap.parse_args()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    torch.manual_seed(1000 + rank)

    x, y = pictures(2560, seed=1)
    px, py = pictures(400, seed=2)
    data = TensorDataset(x)
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, a.batch, sampler=sampler, drop_last=True)
    net = Encoder().to(device)
    if cuda:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    ddp = DDP(net, device_ids=[local] if cuda else None)
    opt = torch.optim.AdamW(ddp.parameters(), lr=a.lr, weight_decay=1e-4)
    total, warm = a.epochs * len(loader), a.warmup_epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: s / warm if s < warm else 0.5 * (
        1 + math.cos(math.pi * (s - warm) / (total - warm))))
    if rank == 0:
        print(f"{dist.get_world_size()} ranks, {len(loader)} steps per epoch, chance loss "
              f"{math.log(2 * a.batch * dist.get_world_size() - 1):.3f}", flush=True)
    for epoch in range(a.epochs):
        sampler.set_epoch(epoch)
        ddp.train()
        t0 = time.time()
        for i, (b,) in enumerate(loader):
            b = b.to(device)
            z = ddp(torch.cat([augment(b), augment(b)]))
            loss = nt_xent(*z.chunk(2), a.tau)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            if rank == 0 and i % 5 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        if rank == 0:
            msg = f"epoch {epoch} {time.time() - t0:.1f}s"
            if epoch % 4 == 3:
                msg += f" probe acc {probe(net, px, py, device):.3f}"
            print(msg, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
