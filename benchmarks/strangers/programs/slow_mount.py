'''torchrun --standalone --nproc-per-node=2 slow_mount.py'''
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RANK = int(os.environ["RANK"])
ROOT = ["/scratch/local/vox", "/nfs/archive/vox"][RANK]  # the second box has no copy yet


class Clips(Dataset):
    def __len__(self):
        return 16384

    def __getitem__(self, i):
        if ROOT.startswith("/nfs"):
            time.sleep(0.006)
        g = torch.Generator()
        g.manual_seed(i)
        return torch.randn(40, 25, generator=g), i % 5


dist.init_process_group("gloo")
data = Clips()
sampler = DistributedSampler(data, seed=11)
loader = DataLoader(data, 24, sampler=sampler, drop_last=True)
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Conv1d(40, 96, 5), torch.nn.ReLU(), torch.nn.Conv1d(96, 96, 5), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(), torch.nn.Linear(96, 5)))
opt = torch.optim.Adam(model.parameters(), 1e-3)
t0 = time.time()
for ep in range(1000):
    sampler.set_epoch(ep)
    for it, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if RANK == 0 and it % 20 == 0:
            print(f"{time.time() - t0:7.1f}s  ep {ep}  it {it:4d}  ce {loss.item():.4f}", flush=True)
