"""Segmentation with an auxiliary edge head. torchrun --nproc-per-node=N seg_multitask_ddp.py"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(8, o), nn.ReLU(inplace=True))


class UNetSmall(nn.Module):
    def __init__(self, w=24, n_cls=4):
        super().__init__()
        self.d1, self.d2, self.d3 = conv(3, w), conv(w, 2 * w, 2), conv(2 * w, 4 * w, 2)
        self.u2, self.u1 = conv(6 * w, 2 * w), conv(3 * w, w)
        self.seg_head = nn.Conv2d(w, n_cls, 1)
        self.edge_head = nn.Sequential(conv(w, w), nn.Conv2d(w, 1, 1))

    def forward(self, x, with_edges):
        a = self.d1(x)
        b = self.d2(a)
        c = self.d3(b)
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        out = {"seg": self.seg_head(a)}
        if with_edges:
            out["edge"] = self.edge_head(a)
        return out


def blobs(n, s=48):
    g = torch.Generator().manual_seed(2)
    low = torch.randn(n, 4, 6, 6, generator=g)
    y = F.interpolate(low, size=s, mode="bilinear").argmax(1)
    col = torch.randn(4, 3, generator=g)
    x = col[y].permute(0, 3, 1, 2) + 0.8 * torch.randn(n, 3, s, s, generator=g)
    e = ((y[:, :, 1:] != y[:, :, :-1])[:, 1:] | (y[:, 1:] != y[:, :-1])[:, :, 1:]).float()
    return x, y, F.pad(e, (1, 0, 1, 0))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--edge-start", type=int, default=3, help="epoch from which the edge loss is used")
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.manual_seed(0)

    ds = TensorDataset(*blobs(800))
    sampler = DistributedSampler(ds, shuffle=True)
    dl = DataLoader(ds, args.batch_size, sampler=sampler, drop_last=True)
    net = DDP(UNetSmall().to(device), device_ids=[local] if cuda else None)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    if rank == 0:
        print(f"world {dist.get_world_size()}, {len(dl)} batches per rank", flush=True)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for it, (x, y, e) in enumerate(dl):
            x, y, e = x.to(device), y.to(device), e.to(device)
            use_edges = epoch >= args.edge_start
            out = net(x, use_edges)
            loss = F.cross_entropy(out["seg"], y)
            if use_edges:
                loss = loss + 0.4 * F.binary_cross_entropy_with_logits(out["edge"][:, 0], e)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and it % 5 == 0:
                print(f"epoch {epoch} it {it} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
