"""Lottery tickets: train, prune a fifth of the smallest weights, rewind the rest, train again."""
import argparse
import time

import torch
from torch import nn
from torch.nn.utils import prune

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=250, help="per round")
p.add_argument("--amount", type=float, default=0.2)
p.add_argument("--budget", type=float, default=210)
args = p.parse_args()
torch.manual_seed(0)
means = torch.randn(20, 100)


def sample(n):
    y = torch.randint(0, 20, (n,))
    return means[y] * 0.6 + torch.randn(n, 100), y


net = nn.Sequential(nn.Linear(100, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 20))
layers = [m for m in net if isinstance(m, nn.Linear)]
first = [layer.weight.detach().clone() for layer in layers]
begin, n = time.time(), 0
for round_ in range(100):
    if round_:
        prune.global_unstructured([(layer, "weight") for layer in layers], prune.L1Unstructured, amount=args.amount)
        with torch.no_grad():
            for layer, weight in zip(layers, first):
                layer.weight_orig.copy_(weight)
        kept = sum(int(layer.weight_mask.sum()) for layer in layers) / sum(layer.weight_mask.numel() for layer in layers)
        print(f"--- round {round_}: {100 * kept:.1f}% of the weights are left, rewound to their first values", flush=True)
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
    for _ in range(args.steps):
        x, y = sample(64)
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        n += 1
        if n % 25 == 0:
            print(f"{n:6d}  loss {loss.item():.4f}  acc {(logits.argmax(1) == y).float().mean():.3f}", flush=True)
        if time.time() - begin > args.budget:
            raise SystemExit
