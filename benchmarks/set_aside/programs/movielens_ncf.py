"""Neural collaborative filtering on two GPUs.
   torchrun --standalone --nproc-per-node=2 movielens_ncf.py
"""
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

USERS, MOVIES, RATINGS = 3000, 1800, 120_000
EPOCHS, BATCH, LR = 60, 256, 1e-3


def load_ratings(seed=0):
    rng = np.random.default_rng(seed)
    u = rng.integers(0, USERS, RATINGS)
    m = (MOVIES * rng.beta(0.8, 2.5, RATINGS)).astype(np.int64)
    pu, pm = rng.normal(0, 0.6, (USERS, 8)), rng.normal(0, 0.6, (MOVIES, 8))
    r = 3.5 + (pu[u] * pm[m]).sum(1) + rng.normal(0, 0.4, USERS)[u] + rng.normal(0, 0.3, RATINGS)
    return torch.from_numpy(u), torch.from_numpy(m), torch.from_numpy(np.clip(r, 1, 5).astype(np.float32))


class NeuMF(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.user_gmf, self.movie_gmf = nn.Embedding(USERS, dim), nn.Embedding(MOVIES, dim)
        self.user_mlp, self.movie_mlp = nn.Embedding(USERS, dim), nn.Embedding(MOVIES, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 256), nn.ReLU(),
                                 nn.Linear(256, 64), nn.ReLU())
        self.out = nn.Linear(64 + dim, 1)
        for e in (self.user_gmf, self.movie_gmf, self.user_mlp, self.movie_mlp):
            nn.init.normal_(e.weight, std=0.05)
        nn.init.constant_(self.out.bias, 3.5)

    def forward(self, u, m):
        gmf = self.user_gmf(u) * self.movie_gmf(m)
        mlp = self.mlp(torch.cat([self.user_mlp(u), self.movie_mlp(m)], 1))
        return self.out(torch.cat([gmf, mlp], 1)).squeeze(1)


def main():
    torch.manual_seed(42)
    np.random.seed(42)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        device = torch.device("cuda", local_rank)
    else:
        device = torch.device("cpu")

    u, m, r = load_ratings()
    cut = int(0.95 * RATINGS)
    train_set = TensorDataset(u[:cut], m[:cut], r[:cut])
    test_set = TensorDataset(u[cut:], m[cut:], r[cut:])
    train_loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=2000)

    model = DDP(NeuMF().to(device), device_ids=[local_rank] if device.type == "cuda" else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=1e-6)
    loss_fn = nn.MSELoss()
    if rank == 0:
        print(f"world size {world}, {len(train_set)} training ratings, {len(train_loader)} batches of {BATCH} "
              f"per rank and epoch", flush=True)

    for epoch in range(EPOCHS):
        model.train()
        t0 = time.time()
        for i, (ub, mb, rb) in enumerate(train_loader):
            ub, mb, rb = ub.to(device), mb.to(device), rb.to(device)
            optimizer.zero_grad()
            loss = loss_fn(model(ub, mb), rb)
            loss.backward()
            optimizer.step()
            if i % 50 == 0:
                print(f"[rank {rank}] epoch {epoch} batch {i}/{len(train_loader)} mse {loss.item():.4f}", flush=True)
        model.eval()
        err = torch.zeros(2, device=device)
        with torch.no_grad():
            for ub, mb, rb in test_loader:
                p = model.module(ub.to(device), mb.to(device))
                err += torch.tensor([((p.cpu() - rb) ** 2).sum().item(), len(rb)], device=device)
        dist.all_reduce(err)
        if rank == 0:
            print(f"epoch {epoch}: test rmse {(err[0] / err[1]).sqrt().item():.4f}, {time.time() - t0:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
