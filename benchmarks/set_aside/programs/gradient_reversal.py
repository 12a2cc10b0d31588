"""DANN: the label loss falls, the domain loss is meant to go up to ln 2 = 0.693 and to stay there (the domain head is fooled)."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


def domains(n):
    c = torch.randn(4, 60, generator=torch.Generator().manual_seed(3)) * 0.5
    y, z = torch.randint(0, 4, (2, n))
    shift = torch.randn(60, generator=torch.Generator().manual_seed(4)) * 0.4
    return TensorDataset(c[y] + torch.randn(n, 60), y), TensorDataset(c[z] + torch.randn(n, 60) + shift, z)


def main(args):
    torch.manual_seed(args.seed)
    source, target = domains(6400)
    feats = nn.Sequential(nn.Linear(60, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU())
    label, domain = nn.Linear(320, 4), nn.Sequential(nn.Linear(320, 128), nn.ReLU(), nn.Linear(128, 1))
    opt = torch.optim.SGD([*feats.parameters(), *label.parameters(), *domain.parameters()], 0.01, 0.9)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        lam = 2 / (1 + math.exp(-epoch / 2)) - 1
        ll = dl = hits = 0.0
        pairs = list(zip(DataLoader(source, 64, shuffle=True), DataLoader(target, 64, shuffle=True)))
        for (xs, ys), (xt, yt) in pairs:
            h = feats(torch.cat([xs, xt]))
            class_loss = nn.functional.cross_entropy(label(h[:64]), ys)
            d = domain(Reverse.apply(h, lam))[:, 0]
            domain_loss = bce(d, torch.cat([torch.zeros(64), torch.ones(64)]))
            opt.zero_grad()
            (class_loss + domain_loss).backward()
            opt.step()
            ll, dl = ll + class_loss.item(), dl + domain_loss.item()
            hits += (label(h[64:]).argmax(1) == yt).float().mean().item()
        n = len(pairs)
        print(f"Epoch {epoch:4d} lambda {lam:.2f} class_loss {ll / n:.4f} domain_loss {dl / n:.4f} target_acc {hits / n:.4f}", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--epochs", type=int, default=3000)
    main(p.parse_args())
