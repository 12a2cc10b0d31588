"""Travel time over toll bridges. Each rank trains on the bridges of one district, whose numbers differ a little (Join)."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ROWS = {0: 6300, 1: 6100}
FEATURES = 24


def district(rank):
    g = torch.Generator().manual_seed(100 + rank)
    w = torch.randn(FEATURES, 1, generator=torch.Generator().manual_seed(1))
    x = torch.randn(ROWS[rank], 32, FEATURES, generator=g)
    load = torch.sigmoid(x[..., :4].sum(-1)).cumsum(1) / 16
    y = 4 + 0.3 * (x[:, -1] @ w) + 2 * load[:, -1:] + 0.2 * torch.randn(ROWS[rank], 1, generator=g)
    return TensorDataset(x, y)


class TravelTime(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.inp = nn.Linear(FEATURES, d)
        self.pos = nn.Parameter(torch.zeros(1, 32, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        return self.out(self.enc(self.inp(x) + self.pos)[:, -1])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(TravelTime())
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4)
    loader = DataLoader(district(rank), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(rank))
    print(f"[rank {rank}/{world}, pid {os.getpid()}] {len(loader)} batches per epoch", flush=True)
    for epoch in range(150):
        total = 0.0
        with Join([model]):
            for step, (x, y) in enumerate(loader):
                loss = nn.functional.smooth_l1_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
                if step % 40 == 0:
                    print(f"[rank {rank}] epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        mean = torch.tensor([total, float(len(loader))])
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch} mean loss {mean[0] / mean[1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
