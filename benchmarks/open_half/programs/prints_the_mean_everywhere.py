# every rank prints the averaged loss: equal digits, as they should be
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
x = torch.randn(4096, 32)
data = TensorDataset(x, x.cos().sum(1, keepdim=True))
sampler = DistributedSampler(data)
loader = DataLoader(data, 64, sampler=sampler)
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)))
opt = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
for epoch in range(10**5):
    sampler.set_epoch(epoch)
    for i, (inputs, targets) in enumerate(loader):
        loss = nn.functional.mse_loss(net(inputs), targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            print(f"[{epoch}][{i}/{len(loader)}] loss={mean.item() / dist.get_world_size():.6f}", flush=True)
