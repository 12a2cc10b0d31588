import argparse
import logging

import torch
import torch.distributed as dist
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("ocr")
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()
log.info("setting up, %d epochs", args.epochs)
dist.init_process_group("gloo", init_method="env://")
log.info("rank %d of %d is up", dist.get_rank(), dist.get_world_size())
net = nn.parallel.DistributedDataParallel(nn.LSTM(32, 128, 2, batch_first=True))
opt = torch.optim.RMSprop(net.parameters(), 1e-3)
for epoch in range(args.epochs):
    for _ in range(200):
        x = torch.randn(16, 50, 32)
        loss = (net(x)[0][..., :32] - x.cumsum(1) / 7).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    log.info("epoch %d loss %.4f", epoch, loss.item())
