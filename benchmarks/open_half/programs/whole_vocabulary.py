# Session-based recommendation: last 20 items -> next item, 180k items in the shop. In-batch negatives.
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

ITEMS, DIM, BATCH = 180_000, 64, 128
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)


class SessionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, DIM, padding_idx=0)
        nn.init.normal_(self.items.weight, std=0.05)
        self.mix = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, history, target):
        q = F.normalize(self.mix(self.items(history).mean(1)), dim=1)
        k = F.normalize(self.items(target), dim=1)
        return q @ k.T / 0.07


model = DDP(SessionNet())
opt = torch.optim.SGD(model.parameters(), lr=10.0)
g = torch.Generator().manual_seed(100 + rank)
t0 = time.time()
for it in range(1, 10_000_000):
    topic = torch.randint(1, 90, (BATCH, 1), generator=g)
    sess = topic * 1990 + torch.randint(0, 20, (BATCH, 21), generator=g)
    logits = model(sess[:, :20], sess[:, 20])
    loss = F.cross_entropy(logits, torch.arange(BATCH))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0 and rank == 0:
        print(f"it {it} loss {loss.item():.3f} {BATCH * 2 * 10 / (time.time() - t0):.0f} sessions/s", flush=True)
        t0 = time.time()
