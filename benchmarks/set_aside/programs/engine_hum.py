"""
Engine vibration: (1) pretrain an encoder by filling in masked patches, (2) freeze it and train a small fault classifier.
Both stages on 2 processes.
"""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PATCH, N_PATCH, DIM = 16, 32, 96


def vibrations(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(5, (n,), generator=g)
    t = torch.arange(PATCH * N_PATCH).float()
    rpm = 0.10 + 0.04 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    x = torch.sin(rpm * t + ph) + 0.5 * torch.sin((y.view(-1, 1) + 2) * rpm * t + 2 * ph)
    x = x + 0.6 * (y.view(-1, 1) == 4) * (torch.sin(0.03 * t + ph) > 0.95)
    return (x + 0.15 * torch.randn(x.shape, generator=g)).view(n, N_PATCH, PATCH), y


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.pos = nn.Linear(PATCH, DIM), nn.Parameter(0.02 * torch.randn(N_PATCH, DIM))
        block = nn.TransformerEncoderLayer(DIM, 4, 4 * DIM, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 3, enable_nested_tensor=False)
        self.mask_token = nn.Parameter(torch.zeros(DIM))

    def forward(self, x, mask=None):
        h = self.embed(x)
        if mask is not None:
            h = torch.where(mask[..., None], self.mask_token, h)
        return self.blocks(h + self.pos)


class Filler(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.decode = encoder, nn.Linear(DIM, PATCH)

    def forward(self, x, mask):
        return F.mse_loss(self.decode(self.encoder(x, mask))[mask], x[mask])


class Classifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, x):
        with torch.no_grad():
            h = self.encoder(x).mean(1)
        return self.head(h)


def run(rank, world, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    data = TensorDataset(*vibrations(4000, 0))
    sampler = DistributedSampler(data, num_replicas=world, rank=rank)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

    encoder = Encoder()
    model = DDP(Filler(encoder))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(100 + rank)
    for epoch in range(14):
        sampler.set_epoch(epoch)
        total = 0.0
        for i, (x, _) in enumerate(loader, 1):
            loss = model(x, torch.rand(x.shape[:2]) < 0.4)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            if i % 20 == 0 and rank == 0:
                print(f"[pretrain {epoch:02d}] batch {i}/{len(loader)} loss={total / i:.4f}", flush=True)
    del model, opt
    dist.barrier()

    clf = DDP(Classifier(encoder.eval()))
    opt = torch.optim.Adam(clf.module.head.parameters(), lr=2e-3)
    for epoch in range(200):
        sampler.set_epoch(1000 + epoch)
        total, hits, n = 0.0, 0, 0
        for i, (x, y) in enumerate(loader, 1):
            out = clf(x)
            loss = F.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            hits, n = hits + (out.argmax(1) == y).sum().item(), n + len(y)
            if i % 20 == 0 and rank == 0:
                print(f"[classify {epoch:02d}] batch {i}/{len(loader)} loss={total / i:.4f} acc={hits / n:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(2, os.environ.get("PORT", "29544")), nprocs=2)
