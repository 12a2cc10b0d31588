"""Product photo -> catalogue photo retrieval; recall@k on the whole gallery after every epoch."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Tower(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def views(n, seed):
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(n, 128, generator=g)
    return base + 0.4 * torch.randn(n, 128, generator=g), base + 0.4 * torch.randn(n, 128, generator=g)


@torch.no_grad()
def recall(query, gallery, a, b, k=(1, 10)):
    q = torch.cat([query(c) for c in a.split(2000)])
    r = torch.cat([gallery(c) for c in b.split(2000)])
    print(f"evaluating {len(q)} queries against {len(r)} products", flush=True)
    scores = q @ r.T
    ranks = (scores > scores.diag()[:, None]).sum(1)
    return [(ranks < n).float().mean().item() for n in k]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--gallery", type=int, default=5000)
    ap.add_argument("--batch", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(0)
    query, gallery = Tower(), Tower()
    opt = torch.optim.AdamW([*query.parameters(), *gallery.parameters()], 1e-3)
    a, b = views(args.gallery, 1)
    for epoch in range(args.epochs):
        order = torch.randperm(len(a))
        for i, idx in enumerate(order.split(args.batch)):
            sim = query(a[idx]) @ gallery(b[idx]).T / 0.07
            loss = F.cross_entropy(sim, torch.arange(len(idx)))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 20 == 0:
                print(f"epoch {epoch} {i * args.batch}/{len(a)} loss {loss.item():.4f}", flush=True)
        r1, r10 = recall(query, gallery, a, b)
        print(f"epoch {epoch} recall@1 {r1:.3f} recall@10 {r10:.3f}", flush=True)


if __name__ == "__main__":
    main()
