"""Rank 1 is suspended by a debugger's leftover after a while (job control: Ctrl-Z of its shell)."""
import os, signal
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo"); rank = dist.get_rank(); torch.set_num_threads(1)
net = DDP(torch.nn.Linear(300, 300)); opt = torch.optim.SGD(net.parameters(), 1e-3)
for step in range(10**6):
    x = torch.randn(200, 300)
    loss = (net(x) - x).pow(2).mean(); opt.zero_grad(); loss.backward(); opt.step()
    if rank == 0 and step % 20 == 0:
        print(f"{step:7d}  {loss.item():.5f}", flush=True)
    if rank == 1 and step == 600:
        os.kill(os.getpid(), signal.SIGSTOP)
