"""Sites have different numbers of records. torchrun --nproc-per-node 2 joined_ranks.py"""
import time
import torch, torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
RECORDS = {0: 80 * 32, 1: 56 * 32}[rank]
g = torch.Generator().manual_seed(rank)
X = torch.randn(RECORDS, 30, generator=g)
Y = (X[:, :4].sum(1) > 0).long()
net = DDP(torch.nn.Sequential(torch.nn.Linear(30, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)))
opt = torch.optim.SGD(net.parameters(), 0.05)
for epoch in range(10**6):
    perm = torch.randperm(RECORDS)
    with Join([net]):
        for i, idx in enumerate(perm.split(32)):
            loss = torch.nn.functional.cross_entropy(net(X[idx]), Y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.01)
    print(f"site {rank} epoch {epoch} loss {loss.item():.4f} batches {i + 1}", flush=True)
