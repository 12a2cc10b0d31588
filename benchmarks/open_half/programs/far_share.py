"""One of the two workers reads its records over the slow share."""
import os, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Records(IterableDataset):
    def __init__(self, rank):
        self.wait = 0.15 if rank == 1 else 0.0   # what the share needs for one record batch

    def __iter__(self):
        gen = torch.Generator().manual_seed(os.getpid())
        while True:
            time.sleep(self.wait)
            yield torch.randn(48, 64, generator=gen)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.SiLU(), torch.nn.Linear(256, 64)))
opt = torch.optim.SGD(net.parameters(), 1e-2)
for step, x in enumerate(DataLoader(Records(rank), batch_size=None)):
    loss = (net(x) - x).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and step % 5 == 0:
        print(f"global_step {step} recon {loss.item():.4f}", flush=True)
