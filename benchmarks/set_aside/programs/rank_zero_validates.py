"""DDP; rank 0 validates each epoch while the others wait at a barrier for a moment."""
import os, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(7)
A = torch.randn(64, 1)
X = torch.randn(12000, 64)
Y = (X @ A).abs().sqrt() + 0.05 * torch.randn(12000, 1)
train, val = TensorDataset(X[:10000], Y[:10000]), TensorDataset(X[10000:], Y[10000:])
sampler = DistributedSampler(train, seed=7)
loader = DataLoader(train, batch_size=50, sampler=sampler)
held = DataLoader(val, batch_size=200)
net = DDP(nn.Sequential(nn.Linear(64, 300), nn.SiLU(), nn.Linear(300, 300), nn.SiLU(), nn.Linear(300, 1)))
opt = torch.optim.AdamW(net.parameters(), 3e-4)
best = 1e9
for epoch in range(100000):
    sampler.set_epoch(epoch)
    net.train()
    total = 0.0
    for x, y in loader:
        loss = nn.functional.smooth_l1_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        opt.step()
        total += loss.item()
    if rank == 0:
        net.eval()
        with torch.inference_mode():
            score = sum(nn.functional.smooth_l1_loss(net.module(x), y).item() for x, y in held) / len(held)
        if score < best:
            best = score
            torch.save(net.module.state_dict(), os.devnull)
        print(f"epoch {epoch} train {total / len(loader):.4f} val {score:.4f} best {best:.4f}", flush=True)
    dist.barrier()
