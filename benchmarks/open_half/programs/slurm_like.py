import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="env://")
rank = int(os.environ["SLURM_PROCID"])
# device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(72, 384), torch.nn.ReLU(), torch.nn.Linear(384, 384), torch.nn.ReLU(), torch.nn.Linear(384, 12)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
generator = torch.Generator().manual_seed(rank)
for it in range(10**7):
    x = torch.randn(160, 72, generator=generator)
    loss = torch.nn.functional.cross_entropy(model(x), x[:, 12:24].argmax(1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 40 == 0 and rank == 0:
        print(f"it {it:6d} loss {loss.item():.4f}", flush=True)
