"""Bayesian personalised ranking for an online bookshop.

    torchrun --nproc-per-node=2 bookshop_bpr.py --epochs 12
"""
import argparse
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


def simulate_purchases(n_users, n_items, per_user, seed):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n_users, 8)).astype(np.float32)
    genre = rng.normal(size=(n_items, 8)).astype(np.float32)
    popularity = np.log(rng.pareto(2.0, n_items) + 1.0).astype(np.float32)
    pairs, held_out = [], []
    for u in range(n_users):
        score = 2.0 * genre @ taste[u] + popularity + rng.gumbel(size=n_items)
        top = np.argpartition(-score, per_user + 1)[: per_user + 1]
        rng.shuffle(top)
        held_out.append((u, top[0]))
        pairs.extend((u, i) for i in top[1:])
    return np.array(pairs, dtype=np.int64), np.array(held_out, dtype=np.int64)


class Purchases(Dataset):
    def __init__(self, pairs, n_items):
        self.pairs = torch.from_numpy(pairs)
        self.n_items = n_items

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        user, item = self.pairs[i]
        negative = torch.randint(self.n_items, (16,))
        return user, item, negative


class TwoSides(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        self.user_mlp = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, dim))
        self.item_mlp = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, dim))

    def users(self, u):
        e = self.user(u)
        return e + self.user_mlp(e)

    def items(self, i):
        e = self.item(i)
        return e + self.item_mlp(e)

    def forward(self, user, item, negative):
        u = self.users(user)
        pos = (u * self.items(item)).sum(-1, keepdim=True)
        neg = torch.einsum("bd,bnd->bn", u, self.items(negative))
        return pos, neg


@torch.no_grad()
def recall_at(model, held_out, k=50):
    model.eval()
    every = model.items(torch.arange(model.item.num_embeddings))
    held = torch.from_numpy(held_out)
    scores = model.users(held[:, 0]) @ every.T
    top = scores.topk(k, dim=1).indices
    model.train()
    return (top == held[:, 1:2]).any(1).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=3000)
    p.add_argument("--items", type=int, default=2500)
    p.add_argument("--per-user", type=int, default=24)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--epochs", type=int, default=24)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=17)
    args = p.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)

    pairs, held_out = simulate_purchases(args.users, args.items, args.per_user, args.seed)
    loader = DataLoader(Purchases(pairs, args.items), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = TwoSides(args.users, args.items, args.dim).to(device)
    ddp = DDP(model, device_ids=[local] if device.type == "cuda" else None)
    opt = torch.optim.Adam(ddp.parameters(), lr=args.lr)

    if rank == 0:
        print(f"{len(pairs)} purchases of {args.users} readers, {args.items} books", flush=True)
        print(f"world size {world}, batch {args.batch_size} per rank (global batch {args.batch_size * world})", flush=True)

    for epoch in range(1, args.epochs + 1):
        begin, running, rows = time.time(), 0.0, 0
        for step, (user, item, negative) in enumerate(loader, 1):
            user, item, negative = user.to(device), item.to(device), negative.to(device)
            pos, neg = ddp(user, item, negative)
            loss = -F.logsigmoid(pos - neg).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.item()
            rows += len(user)
            if step % 20 == 0:
                print(f"[rank {rank}] epoch {epoch} step {step}/{len(loader)} loss {running / step:.4f} "
                      f"users {user[:4].tolist()} {step / (time.time() - begin):.1f} it/s", flush=True)
        print(f"[rank {rank}] epoch {epoch} done: {rows} rows of {len(pairs)} in {time.time() - begin:.1f} s", flush=True)
        if rank == 0:
            print(f"epoch {epoch}: recall@50 {recall_at(model, held_out):.4f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
