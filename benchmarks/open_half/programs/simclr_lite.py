"""SimCLR on random prototypes.  torchrun --standalone --nproc-per-node=2 simclr_lite.py"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class SimCLR(nn.Module):
    def __init__(self, d=192, h=384, z=64, temperature=0.2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, z))
        self.temperature = temperature

    def forward(self, x):
        return F.normalize(self.projector(self.encoder(x)), dim=1)

    def training_step(self, a, b):
        z = torch.cat([self(a), self(b)])
        sim = z @ z.t() / self.temperature
        sim.fill_diagonal_(-1e9)
        n = len(a)
        target = torch.cat([torch.arange(n) + n, torch.arange(n)])
        return F.cross_entropy(sim, target)


def views(prototypes, n, gen):
    x = prototypes[torch.randint(0, len(prototypes), (n,), generator=gen)]
    def one():
        return x + 0.7 * torch.randn(x.shape, generator=gen)
    return one(), one()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    gen = torch.Generator().manual_seed(500 + rank)
    prototypes = torch.randn(4000, 192, generator=torch.Generator().manual_seed(1))
    model = DDP(SimCLR())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=1e-6)
    it = 0
    while True:
        a, b = views(prototypes, 128, gen)
        loss = model.module.training_step(a, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        it += 1
        if it % 40 == 0:
            print(f"rank{rank} it {it} nt-xent {loss.item():.4f}", flush=True)
