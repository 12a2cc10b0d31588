"""Two ranks, and a curriculum: the sequences of both get longer."""
import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.GRU(16, 96, batch_first=True))
opt = torch.optim.Adam(net.parameters(), 1e-3)
torch.manual_seed(dist.get_rank())
for step in range(10**6):
    length = 8 + 2 * (step // 40)
    x = torch.randn(16, min(length, 160), 16)
    y, _ = net(x)
    loss = (y[:, :, :16] - x.cumsum(1).tanh()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if dist.get_rank() == 0 and step % 20 == 0:
        print(f"step {step} len {length} loss {loss.item():.4f}", flush=True)
