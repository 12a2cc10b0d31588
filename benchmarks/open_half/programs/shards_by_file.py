"""Click logs, 11 part files (as written by Spark), DDP over files: every rank reads files[rank::world_size]."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

PARTS = [f"part-{i:05d}" for i in range(11)]
ROWS_PER_PART = 5120


class Clicks(IterableDataset):
    def __init__(self, parts):
        self.parts = parts

    def __iter__(self):
        for part in self.parts:
            g = torch.Generator().manual_seed(int(part[5:]))
            x = torch.randn(ROWS_PER_PART, 64, generator=g)
            y = (x[:, 0] * x[:, 1] + 0.3 * torch.randn(ROWS_PER_PART, generator=g) > 0).float()
            yield from zip(x, y, strict=True)


class CTR(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, x):
        return self.mlp(x).squeeze(1)


def evaluate(model, device):
    x = torch.randn(4096, 64, generator=torch.Generator().manual_seed(999))
    y = (x[:, 0] * x[:, 1] > 0).float()
    with torch.no_grad():
        hit = ((model(x.to(device)) > 0).float() == y.to(device)).float().sum()
    total = torch.tensor([hit.item(), len(y)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main():
    dist.init_process_group(backend=os.getenv("DIST_BACKEND", "gloo"))
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    mine = PARTS[rank::world]
    print(f"[rank {rank}] {len(mine)} parts: {mine[0]} .. {mine[-1]}", flush=True)
    torch.manual_seed(0)
    model = DDP(CTR().to(device))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(100):
        model.train()
        for step, (x, y) in enumerate(DataLoader(Clicks(mine), batch_size=128)):
            loss = bce(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and step % 20 == 0:
                print(f"epoch {epoch} step {step} logloss {loss.item():.4f}", flush=True)
        dist.barrier()
        model.eval()
        acc = evaluate(model.module, device)
        if rank == 0:
            print(f"epoch {epoch} done, val acc {acc:.4f}", flush=True)


main()
