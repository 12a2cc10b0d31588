"""Identity embeddings for the badge gate. The classifier over all identities is split over the ranks, the backbone is data parallel."""
import argparse
import csv
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Faces(Dataset):
    def __init__(self, identities, per_identity, seed, first=0, size=40):
        g = np.random.default_rng(0)
        self.codes = g.normal(0, 1, (identities, 24)).astype(np.float32)
        low = g.normal(0, 1, (24, 3, 10, 10)).astype(np.float32)
        self.decoder = torch.from_numpy(low)
        self.identities, self.per, self.seed, self.first, self.size = identities, per_identity, seed, first, size

    def __len__(self):
        return self.identities * self.per

    def __getitem__(self, i):
        who = i % self.identities
        rng = np.random.default_rng((self.seed, i))
        code = torch.from_numpy(self.codes[who] + rng.normal(0, 0.5, 24).astype(np.float32))
        img = torch.tensordot(code, self.decoder, 1) / 4
        img = F.interpolate(img[None], size=(self.size, self.size), mode="bilinear", align_corners=False)[0]
        if rng.random() < 0.5:
            img = img * float(rng.uniform(0.7, 1.3)) + float(rng.normal(0, 0.2))
        return img + torch.from_numpy(rng.normal(0, 0.3, img.shape).astype(np.float32)), who


class Backbone(nn.Module):
    def __init__(self, width=32, dim=128):
        super().__init__()
        def conv(a, b, s):
            return nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.GroupNorm(8, b), nn.PReLU(b))
        self.net = nn.Sequential(conv(3, width, 1), conv(width, 2 * width, 2), conv(2 * width, 2 * width, 1), conv(2 * width, 4 * width, 2),
                                 conv(4 * width, 4 * width, 2), nn.Flatten(), nn.Linear(4 * width * 25, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class SplitSoftmax(torch.autograd.Function):
    """Cross entropy over all classes; weight holds the classes [first, first + n) of this rank, features are gathered."""

    @staticmethod
    def forward(ctx, features, weight, labels, first, scale, margin):
        world, rank = dist.get_world_size(), dist.get_rank()
        every = [torch.empty_like(features) for _ in range(world)]
        dist.all_gather(every, features)
        targets = [torch.empty_like(labels) for _ in range(world)]
        dist.all_gather(targets, labels)
        x, y = torch.cat(every), torch.cat(targets)
        logits = x @ weight.T
        mine = (y >= first) & (y < first + len(weight))
        rows, cols = mine.nonzero().squeeze(1), (y - first)[mine]
        logits[rows, cols] -= margin
        logits *= scale
        top = logits.max(1).values
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        logits = (logits - top[:, None]).exp_()
        both = torch.stack([logits.sum(1), torch.zeros_like(top)])
        both[1, rows] = logits[rows, cols]
        dist.all_reduce(both)
        prob = logits / both[0][:, None]
        ctx.save_for_backward(x, weight, prob, rows, cols)
        ctx.scale, ctx.rank, ctx.n, ctx.world = scale, rank, len(features), world
        return -(both[1] / both[0]).clamp(min=1e-30).log().mean()

    @staticmethod
    def backward(ctx, grad):
        x, weight, prob, rows, cols = ctx.saved_tensors
        d = prob.clone()
        d[rows, cols] -= 1
        d *= grad * ctx.scale / len(x)
        dx = d @ weight
        dist.all_reduce(dx)
        # DDP divides by the number of ranks
        return dx[ctx.rank * ctx.n:(ctx.rank + 1) * ctx.n] * ctx.world, d.T @ x, None, None, None, None


class SplitHead(nn.Module):
    def __init__(self, dim, classes, rank, world, scale=24.0, margin=0.2):
        super().__init__()
        share = math.ceil(classes / world)
        self.first = rank * share
        self.weight = nn.Parameter(torch.randn(min(share, classes - self.first), dim) * 0.05)
        self.scale, self.margin = scale, margin

    def forward(self, features, labels):
        return SplitSoftmax.apply(features, F.normalize(self.weight, dim=1), labels, self.first, self.scale, self.margin)


@torch.no_grad()
def verification(backbone, loader, device):
    """Rank-1 identification within the probes of this rank, averaged over ranks."""
    backbone.eval()
    emb, who = zip(*[(backbone.module(x.to(device)), y) for x, y in loader])
    backbone.train()
    emb, who = torch.cat(emb), torch.cat(who)
    sim = emb @ emb.T
    sim.fill_diagonal_(-2)
    hit = (who[sim.argmax(1).cpu()] == who).float().mean().reshape(1).to(device)
    dist.all_reduce(hit)
    return hit.item() / dist.get_world_size()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--identities", type=int, default=1500)
    a.add_argument("--per-identity", type=int, default=8)
    a.add_argument("--batch-size", type=int, default=48)
    a.add_argument("--epochs", type=int, default=15)
    a.add_argument("--lr", type=float, default=1e-3)
    args = a.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    torch.manual_seed(31)
    train = Faces(args.identities, args.per_identity, 1)
    sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True)
    probes = torch.utils.data.Subset(Faces(args.identities, 2, 2), [i for k in range(rank, 300, world) for i in (k, k + args.identities)])
    probe_loader = DataLoader(probes, 100)
    backbone = DDP(Backbone().to(device), device_ids=[local_rank] if cuda else None)
    torch.manual_seed(100 + rank)
    head = SplitHead(128, args.identities, rank, world).to(device)
    opt = torch.optim.AdamW([{"params": backbone.parameters()}, {"params": head.parameters(), "lr": 4 * args.lr}], lr=args.lr, weight_decay=5e-4)
    total = args.epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 60) * (1 - 0.9 * s / total))
    out = os.path.join(tempfile.gettempdir(), "badge_faces")
    os.makedirs(out, exist_ok=True)
    if rank == 0:
        table = csv.writer(open(os.path.join(out, "metrics.csv"), "w", buffering=1))
        print(f"{args.identities} identities, {len(head.weight)} on each of {world} ranks, {len(loader)} steps per epoch, {device}", flush=True)
    step, t0 = 0, time.time()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, who in loader:
            loss = head(backbone(x.to(device)), who.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if rank == 0 and step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {step * args.batch_size * world / (time.time() - t0):.0f} img/s", flush=True)
        hit = verification(backbone, probe_loader, device)
        torch.save(head.state_dict(), os.path.join(out, f"head_{rank}.pt"))
        if rank == 0:
            print(f"epoch {epoch} identification {hit:.3f}", flush=True)
            table.writerow([epoch, loss.item(), hit])
            torch.save(backbone.module.state_dict(), os.path.join(out, "backbone.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
