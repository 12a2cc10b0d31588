"""Two-tower retrieval. After each epoch, all products are ranked for all test queries, without sampling (the sampled metric lied).
"""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

p = argparse.ArgumentParser()
p.add_argument("--products", type=int, default=60000)
p.add_argument("--queries", type=int, default=1500)
p.add_argument("--epoch-steps", type=int, default=150)
p.add_argument("--dim", type=int, default=64)
args = p.parse_args()
torch.manual_seed(0)
kinds = torch.randn(300, 200)
product_kind = torch.randint(0, 300, (args.products,))
features = lambda i: kinds[product_kind[i]] + 0.7 * torch.randn(len(i), 200, generator=torch.Generator().manual_seed(int(i[0])))
query = nn.Sequential(nn.Linear(200, 256), nn.ReLU(), nn.Linear(256, args.dim))
product = nn.Sequential(nn.Linear(200, 256), nn.ReLU(), nn.Linear(256, args.dim))
opt = torch.optim.Adam([*query.parameters(), *product.parameters()], 1e-3)


@torch.no_grad()
def full_ranking():
    print(f"evaluation: ranking {args.products} products for {args.queries} queries, takes about half a minute", flush=True)
    vectors = torch.cat([F.normalize(product(features(i)), dim=1) for i in torch.arange(args.products).split(1000)])
    want = torch.randint(0, 300, (args.queries,))
    hits = 0
    for k in tqdm(want.split(5), desc="ranking", mininterval=2):
        q = F.normalize(query(kinds[k] + 0.7 * torch.randn(len(k), 200)), dim=1)
        order = (q @ vectors.T).argsort(dim=1, descending=True, stable=True)
        hits += (product_kind[order[:, :10]] == k[:, None]).any(1).sum().item()
    return hits / args.queries


for epoch in range(1, 1000):
    start = time.time()
    for step in range(args.epoch_steps):
        i = torch.randint(0, args.products, (256,))
        q = F.normalize(query(kinds[product_kind[i]] + 0.7 * torch.randn(256, 200)), dim=1)
        loss = F.cross_entropy(q @ F.normalize(product(features(i)), dim=1).T / 0.1, torch.arange(256))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 15 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
    print(f"epoch {epoch} trained in {time.time() - start:.0f} s; hit@10 {full_ranking():.3f}", flush=True)
