"""torchrun; every 40 steps the main process evaluates"""
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group('gloo')
r = int(os.environ['RANK'])
torch.set_num_threads(1)
model = DDP(torch.nn.Sequential(torch.nn.Linear(200, 400), torch.nn.ReLU(), torch.nn.Linear(400, 2)))
opt = torch.optim.SGD(model.parameters(), 0.01)


def evaluate():
    with torch.no_grad():
        acc = (model.module(torch.randn(512, 200)).argmax(1) == 0).float().mean()
    dist.barrier()  # wait for everybody before going on
    print('val acc', acc.item(), flush=True)


for step in range(10**6):
    x = torch.randn(128, 200)
    loss = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    opt.zero_grad(); loss.backward(); opt.step()
    if step and step % 400 == 0 and r == 0:
        evaluate()
