import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(512, 512))
opt = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(100000):
    x = torch.randn(64, 512)
    loss = (model(x) - x.flip(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0 and dist.get_rank() == 0:
        print(step, float(loss), flush=True)
