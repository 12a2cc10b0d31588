"""each rank reads its shard list; one list is short"""
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group('gloo')
r, n = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
shards = {0: list(range(100000)), 1: list(range(300))}[r]
net = DistributedDataParallel(torch.nn.Linear(256, 256))
opt = torch.optim.Adam(net.parameters())


def load(i):
    seed = shards[i]
    return torch.randn(256, 256, generator=torch.Generator().manual_seed(seed))


for i in range(100000):
    b = load(i)
    loss = (net(b) - b).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if r == 0 and i % 50 == 0:
        print(i, float(loss), flush=True)
