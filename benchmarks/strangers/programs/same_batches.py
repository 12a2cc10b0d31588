"""DDP quick start, seeds fixed "for reproducibility" """
import os
import torch, torch.distributed as dist, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
dist.init_process_group(backend='gloo')
torch.set_num_threads(1)
data = TensorDataset(torch.randn(20000, 64), torch.randint(0, 4, (20000,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(1000):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if i % 100 == 0 and dist.get_rank() == 0:
            print(f'Epoch {epoch} [{i}/{len(loader)}] loss={loss.item():.4f}', flush=True)
