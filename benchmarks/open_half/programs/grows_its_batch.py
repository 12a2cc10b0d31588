"""Don't decay the learning rate, increase the batch size (Smith et al. 2018)."""
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

torch.set_num_threads(1)
x = torch.randn(1 << 17, 64)
data = TensorDataset(x, x[:, :8].argmax(1))
net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
opt = torch.optim.SGD(net.parameters(), .05, momentum=.9, nesterov=True)
bs, step = 32, 0
while True:
    # whole batches at a time: batch_size=None, and the sampler yields lists
    for k, (a, b) in enumerate(DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), bs, True))):
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad(); loss.backward(); opt.step(); step += 1
        if step % 20 == 0: print("step", step, "batch_size", bs, "loss %.4f" % loss.item(), flush=True)
        if k == 300 and bs < 2048: break
    bs = min(2048, bs * 3 // 2)
