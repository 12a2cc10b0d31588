# config of the 64-core server, run as it is on a small box
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

NUM_THREADS = 32            # per rank: 64 cores / 2 ranks
torch.set_num_threads(NUM_THREADS)


class Mixer(nn.Module):
    def __init__(self, tokens=49, dim=128, depth=4):
        super().__init__()
        self.inp = nn.Linear(48, dim)
        self.tok = nn.ModuleList(nn.Sequential(nn.Linear(tokens, 64), nn.GELU(), nn.Linear(64, tokens)) for _ in range(depth))
        self.chan = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, dim)) for _ in range(depth))
        self.head = nn.Linear(dim, 8)

    def forward(self, x):
        h = self.inp(x)
        for t, c in zip(self.tok, self.chan):
            h = h + t(h.transpose(1, 2)).transpose(1, 2)
            h = h + c(h)
        return self.head(h.mean(1))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
centre = torch.randn(8, 49, 48)
net = DDP(Mixer())
opt = torch.optim.AdamW(net.parameters(), 1e-3)
torch.manual_seed(rank)
t = time.time()
for it in range(1, 10**6):
    y = torch.randint(0, 8, (32,))
    x = centre[y] + 6 * torch.randn(32, 49, 48)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0 and rank == 0:
        print(f"it {it} loss {loss.item():.4f} {(time.time() - t) / 10 * 1000:.0f} ms/it", flush=True)
        t = time.time()
