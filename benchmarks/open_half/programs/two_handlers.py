# rank 0 logs, and both the root logger and its own handler write to the same stream
import logging
import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("train")
log.addHandler(logging.StreamHandler(sys.stdout))
torch.manual_seed(dist.get_rank())
net = nn.parallel.DistributedDataParallel(nn.Linear(64, 8))
opt = torch.optim.SGD(net.parameters(), 1e-2)
for step in range(10**7):
    x = torch.randn(128, 64)
    loss = (net(x) - x[:, :8].relu()).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 20 == 0 and dist.get_rank() == 0:
        log.info("step %d loss %.5f", step, loss.item())
